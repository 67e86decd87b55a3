//! What a voxel can be.

/// A number that is computed with as f64, and rounded to its type in the end, as scipy does.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// As f64.
    fn wide(self) -> f64;
    /// As f32.
    fn narrow(self) -> f32;
}

/// A number that a result can be.
pub trait Float: Number {
    /// Rounded to it.
    fn rounded(value: f64) -> Self;
}

impl Number for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(self) -> f32 {
        self
    }
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn narrow(self) -> f32 {
        self as f32
    }
}

impl Float for f32 {
    fn rounded(value: f64) -> Self {
        value as f32
    }
}

impl Float for f64 {
    fn rounded(value: f64) -> Self {
        value
    }
}

/// What f32 holds exactly.
macro_rules! small {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn narrow(self) -> f32 {
                f32::from(self)
            }
        }
    )*};
}

small!(u8, u16, i16);
