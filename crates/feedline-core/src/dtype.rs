//! The number types a tensor can hold.

use bytemuck::{CheckedBitPattern, NoUninit};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// A Rust type that can be an element of a tensor.
pub trait Element:
    NoUninit + CheckedBitPattern + Send + Sync + PartialEq + std::fmt::Debug + 'static
{
    /// Its [`DType`].
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}

elements! {
    bool => Bool, u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_rust_types() {
        fn same<T: Element>() {
            assert_eq!(T::DTYPE.size(), size_of::<T>(), "{}", T::DTYPE);
            // Slabs align fields to 64 bytes, which must cover every element.
            assert!(align_of::<T>() <= 64);
        }
        same::<bool>();
        same::<u8>();
        same::<u16>();
        same::<u32>();
        same::<u64>();
        same::<i8>();
        same::<i16>();
        same::<i32>();
        same::<i64>();
        same::<f16>();
        same::<bf16>();
        same::<f32>();
        same::<f64>();
    }
}
