//! Volumes of medicine: NRRD and NIfTI. Which format it is, the first bytes say.
//!
//! ```text
//! file ─► header: type, shape, spacing, where and how numbers are stored ─► check: can the file give them? ─► numbers
//! ```
//!
//! A header is a claim. It is compared with what the data could give before anybody makes room for it; then the numbers are
//! decoded straight into memory of the caller, in the order of the file: the first axis is the fastest.
//!
//! | file | what it is |
//! |---|---|
//! | `nrrd.rs`, `nifti.rs` | the headers |
//! | `stored.rs` | how numbers are stored, and how they are read |
//! | `unpack.rs` | gzip and bzip2 |
//! | `text.rs` | numbers written with digits |
//! | `scale.rs` | to floats, times a slope, plus an intercept |

mod nifti;
mod nrrd;
mod scale;
mod stored;
mod text;
mod unpack;

use std::io;

use feedline_core::DType;

use self::stored::Stored;
pub use self::unpack::Scratch;
use crate::tensor::ReadAt;

/// The most bytes that a volume may have: 16 GiB.
pub const MOST_BYTES: u64 = 1 << 34;

/// A volume that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not of a format that is known.
    #[error("it is neither an NRRD nor a NIfTI file")]
    Unknown,
    /// It is damaged.
    #[error("the {0} file is damaged: {1}")]
    Damaged(&'static str, String),
    /// It is of a kind that is not read.
    #[error("{0}")]
    Unfit(String),
    /// There is less than its header says.
    #[error("its header says that there are {expected} bytes of numbers, but there {found}")]
    Short {
        /// What the header says.
        expected: u64,
        /// What there is, in words.
        found: String,
    },
    /// There is more than its header says.
    #[error("its header says that there are {0} bytes of numbers, but there are more")]
    Long(u64),
    /// It is larger than is allowed.
    #[error("its shape is {0:?}, which takes more than {MOST_BYTES} bytes")]
    TooLarge(Vec<usize>),
}

/// Where the numbers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the same file.
    Here,
    /// In the file of this path, seen from the folder of the header. Whoever opens it should mind that anybody may have
    /// written it.
    Named(String),
    /// In the file of the same name that ends with `img` where the header's ends with `hdr`.
    Beside,
}

/// What a file says of its volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The type of its numbers, as they are stored.
    pub dtype: DType,
    /// Its extents, the fastest axis first.
    pub shape: Vec<usize>,
    /// How far apart numbers are along each axis, where that is known and the axis lies in space.
    pub spacing: Vec<Option<f64>>,
    /// Slope and intercept that make values of the numbers, where there are any.
    pub scaling: Option<(f64, f64)>,
    /// All that was said, by the names that the format has for it.
    pub fields: Vec<(String, String)>,
    /// Where the numbers are.
    pub place: Place,
    nifti: bool,
    stored: Stored,
}

impl Header {
    /// Reads the header of a file.
    pub fn read(file: &(impl ReadAt + ?Sized)) -> Result<Self, VolumeError> {
        let mut head = [0; 4];
        let head = &mut head[..file.len().min(4) as usize];
        file.read_exact_at(head, 0)?;
        let header = match &*head {
            [] => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty").into()),
            b"NRRD" => nrrd::header(file)?,
            [0x1f, 0x8b, ..] => nifti::header(file, true)?,
            _ => nifti::header(file, false)?,
        };
        let bytes = header.shape.iter().try_fold(header.dtype.size() as u64, |bytes, extent| {
            bytes.checked_mul(*extent as u64).filter(|bytes| *bytes <= MOST_BYTES)
        });
        if bytes.is_none() {
            return Err(VolumeError::TooLarge(header.shape));
        }
        Ok(header)
    }

    /// Whether it is a NIfTI file, whose numbers stand for values that may be others.
    pub fn is_nifti(&self) -> bool {
        self.nifti
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes the numbers take, as they are stored.
    pub fn bytes(&self) -> usize {
        self.count() * self.dtype.size()
    }

    /// The spacing of the three axes in space, if they are three and all are known.
    pub fn spacing_3d(&self) -> Option<[f64; 3]> {
        let known: Vec<f64> = self.spacing.iter().filter_map(|spacing| *spacing).collect();
        known.try_into().ok()
    }

    /// Refuses a file that cannot have as many numbers as its header says. Until then, no room should be made for them.
    pub fn check(&self, data: &(impl ReadAt + ?Sized)) -> Result<(), VolumeError> {
        self.stored.check(data, self.bytes() as u64, self.dtype)
    }

    /// Reads the numbers as they are stored, in this machine's order of bytes. `data` is the file that the
    /// [place](Place) says.
    ///
    /// # Panics
    /// If the row is not as long as the numbers are.
    pub fn read_into(
        &self,
        data: &(impl ReadAt + ?Sized),
        scratch: &mut Scratch,
        row: &mut [u8],
    ) -> Result<(), VolumeError> {
        assert_eq!(row.len(), self.bytes(), "a row of another length");
        self.check(data)?;
        self.stored.read(data, scratch, self.dtype, row)
    }

    /// Reads the values: the numbers as floats, times the slope, plus the intercept.
    ///
    /// # Panics
    /// If the row is not as long as the numbers are many.
    pub fn read_scaled_into(
        &self,
        data: &(impl ReadAt + ?Sized),
        scratch: &mut Scratch,
        row: &mut [f64],
    ) -> Result<(), VolumeError> {
        assert_eq!(row.len(), self.count(), "a row of another length");
        if self.dtype == DType::F64 {
            self.read_into(data, scratch, bytemuck::cast_slice_mut(row))?;
            scale::in_place(row, self.scaling);
            return Ok(());
        }
        self.check(data)?;
        let mut plain = std::mem::take(&mut scratch.plain);
        let bytes = self.bytes();
        if plain.len() < bytes {
            plain.resize(bytes, 0);
        }
        let read = self.read_into(data, scratch, &mut plain[..bytes]);
        if read.is_ok() {
            scale::into(self.dtype, &plain[..bytes], self.scaling, row);
        }
        scratch.plain = plain;
        read
    }
}

/// A spacing that can be one; negative ones count backwards.
fn spacing(format: &'static str, axis: usize, value: f64) -> Result<Option<f64>, VolumeError> {
    if value.is_finite() && value != 0.0 {
        return Ok(Some(value.abs()));
    }
    Err(VolumeError::Damaged(format, format!("the spacing of its axis {axis} is {value}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    const TYPES: [(&str, DType); 10] = [
        ("int8", DType::I8),
        ("uint8", DType::U8),
        ("int16", DType::I16),
        ("uint16", DType::U16),
        ("int32", DType::I32),
        ("uint32", DType::U32),
        ("int64", DType::I64),
        ("uint64", DType::U64),
        ("float", DType::F32),
        ("double", DType::F64),
    ];

    /// Bytes of numbers, as they are in a file of this encoding.
    fn encoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
        match encoding {
            "gzip" => {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(bytes).unwrap();
                packed.finish().unwrap()
            }
            "bzip2" => {
                let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                packed.write_all(bytes).unwrap();
                packed.finish().unwrap()
            }
            "hex" => bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
            _ => bytes.to_vec(),
        }
    }

    fn read(file: &[u8], scratch: &mut Scratch) -> Result<Vec<u8>, VolumeError> {
        let header = Header::read(file)?;
        header.check(file)?;
        let mut row = vec![0; header.bytes()];
        header.read_into(file, scratch, &mut row)?;
        Ok(row)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            shape in proptest::collection::vec(1usize..7, 1..5),
            (name, dtype) in proptest::sample::select(TYPES.to_vec()),
            encoding in proptest::sample::select(vec!["raw", "gzip", "bzip2", "hex"]),
            big in any::<bool>(),
            skipped in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..20)),
            seed in any::<u64>(),
        ) {
            let count = shape.iter().product::<usize>() * dtype.size();
            let numbers: Vec<u8> = (0..count as u64).map(|at| (seed.rotate_left(at as u32) >> 3) as u8).collect();
            let mut stored = numbers.clone();
            if big != cfg!(target_endian = "big") {
                stored.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
            }
            // Digits of bytes that are skipped would be digits that are not.
            let skipped = skipped.filter(|_| encoding != "hex").unwrap_or_default();
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            let header = format!(
                "NRRD0004\ntype: {name}\ndimension: {}\nsizes: {}\nendian: {}\nencoding: {encoding}\nbyte skip: {}\n\n",
                shape.len(), sizes.join(" "), if big { "big" } else { "little" }, skipped.len(),
            );
            let data = encoded(encoding, &[skipped, stored].concat());
            let file = [header.as_bytes(), &data].concat();
            let mut scratch = Scratch::default();
            prop_assert_eq!(&read(&file, &mut scratch).unwrap(), &numbers);
            let found = Header::read(file.as_slice()).unwrap();
            prop_assert_eq!((found.dtype, found.shape), (dtype, shape));
            // Whatever is cut off, it is an error, and the scratch is good for the next.
            let end = header.len() + seed as usize % data.len();
            prop_assert!(read(&file[..end], &mut scratch).is_err());
            prop_assert_eq!(&read(&file, &mut scratch).unwrap(), &numbers);
        }

        #[test]
        fn any_change_of_a_header_is_an_error_or_a_volume_that_is_there(
            at in 0usize..80,
            to in any::<u8>(),
            nifti in any::<bool>(),
        ) {
            let mut file = if nifti {
                let mut file = vec![0; 352 + 24];
                for (at, value) in [(0, 348i16), (40, 3), (42, 2), (44, 3), (46, 4), (70, 2), (72, 8)] {
                    file[at..at + 2].copy_from_slice(&value.to_le_bytes());
                }
                for (at, value) in [(80, 1f32), (84, 1.0), (88, 1.0), (108, 352.0)] {
                    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
                file[344..347].copy_from_slice(b"n+1");
                file
            } else {
                let header = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 3 4\nencoding: raw\nspacings: 1 1 1\n\n";
                [header.as_bytes(), &[7; 24]].concat()
            };
            prop_assert_eq!(read(&file, &mut Scratch::default()).unwrap().len(), 24);
            file[at] = to;
            if let Ok(row) = read(&file, &mut Scratch::default()) {
                prop_assert!(row.len() <= file.len());
            }
        }
    }

    #[test]
    fn what_is_no_volume_is_refused() {
        for bytes in [&b""[..], b"NRRD", b"NRRD0005\n\n", b"<html>", &[0; 600], b"\x1f\x8b", b"\x5c\x01\0\0"]
        {
            assert!(Header::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
