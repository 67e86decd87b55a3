//! Rust values that become tensors by themselves: numbers, arrays, vectors, and tuples of those.

use feedline_core::{Element, Field, RowError, RowMut, bf16, f16};

/// A value that can be written into a row of tensors.
///
/// A number is a scalar field, an array a fixed one, a `Vec` a ragged one (values and offsets); a tuple has a
/// field for each part. Fields are called `"0"`, `"1"`, and so on. For other names, shapes of several axes and
/// padding, implement [`crate::Rows`].
///
/// ```
/// use feedline::{BoxError, Dataset, SampleRng, Spec};
///
/// struct Points;
///
/// impl Dataset for Points {
///     type Sample = ([f32; 2], i64);
///     fn len(&self) -> usize {
///         6
///     }
///     fn get(&self, index: usize, _rng: &mut SampleRng) -> Result<Self::Sample, BoxError> {
///         Ok(([index as f32, 0.5], index as i64 % 2))
///     }
/// }
///
/// let mut loader = Spec::stacked(Points).batch_size(2).build()?;
/// let batch = loader.epoch().next().unwrap()?;
/// assert_eq!(batch.slice::<f32>("0")?, [0.0, 0.5, 1.0, 0.5]);
/// assert_eq!(batch.slice::<i64>("1")?, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Sample: Send + 'static {
    /// The fields it has.
    fn fields() -> Vec<Field>;

    /// Writes all of them.
    fn write(self, row: &mut RowMut<'_>) -> Result<(), RowError>;
}

/// One field of a [`Sample`].
pub trait Part: Send + 'static {
    /// The field it is, under this name.
    fn field(name: String) -> Field;

    /// Writes it as this field.
    fn put(self, field: usize, row: &mut RowMut<'_>) -> Result<(), RowError>;
}

macro_rules! scalars {
    ($($scalar:ty),+) => {
        $(impl Part for $scalar {
            fn field(name: String) -> Field {
                Field::fixed::<Self>(name, [])
            }

            fn put(self, field: usize, row: &mut RowMut<'_>) -> Result<(), RowError> {
                row.write(field, &[self])
            }
        })+
    };
}

scalars!(bool, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);

impl<T: Element, const N: usize> Part for [T; N] {
    fn field(name: String) -> Field {
        Field::fixed::<T>(name, [N])
    }

    fn put(self, field: usize, row: &mut RowMut<'_>) -> Result<(), RowError> {
        row.write(field, &self)
    }
}

impl<T: Element> Part for Vec<T> {
    fn field(name: String) -> Field {
        Field::ragged::<T>(name, [])
    }

    fn put(self, field: usize, row: &mut RowMut<'_>) -> Result<(), RowError> {
        row.write(field, &self)
    }
}

/// A single field is a sample too.
macro_rules! single {
    ($([$($generic:tt)*] $part:ty)+) => {
        $(impl<$($generic)*> Sample for $part {
            fn fields() -> Vec<Field> {
                vec![<Self as Part>::field("0".to_owned())]
            }

            fn write(self, row: &mut RowMut<'_>) -> Result<(), RowError> {
                self.put(0, row)
            }
        })+
    };
}

single! {
    [] bool [] u8 [] u16 [] u32 [] u64 [] i8 [] i16 [] i32 [] i64 [] f16 [] bf16 [] f32 [] f64
    [T: Element, const N: usize] [T; N]
    [T: Element] Vec<T>
}

macro_rules! samples {
    ($(($($part:ident $at:tt),+))+) => {
        $(impl<$($part: Part),+> Sample for ($($part,)+) {
            fn fields() -> Vec<Field> {
                vec![$($part::field(stringify!($at).to_owned())),+]
            }

            fn write(self, row: &mut RowMut<'_>) -> Result<(), RowError> {
                $(self.$at.put($at, row)?;)+
                Ok(())
            }
        })+
    };
}

samples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}
