//! The header of a NIfTI file: numbers at fixed places, in either order of bytes. Version 1 has 348 bytes, version 2 has 540.

use feedline_core::DType;

use super::{
    Header, Place, VolumeError, spacing,
    stored::{Encoding, Skip, Stored},
    unpack::{self, Packing},
};
use crate::tensor::ReadAt;

/// A field: its name, what it is of, where it is, and how many there are of it.
type Field = (&'static str, Kind, usize, usize);

#[derive(Clone, Copy)]
enum Kind {
    Byte,
    I16,
    I32,
    I64,
    F32,
    F64,
    Letter,
}

const ONE: [Field; 38] = [
    ("dim_info", Kind::Byte, 39, 1),
    ("dim", Kind::I16, 40, 8),
    ("intent_p1", Kind::F32, 56, 1),
    ("intent_p2", Kind::F32, 60, 1),
    ("intent_p3", Kind::F32, 64, 1),
    ("intent_code", Kind::I16, 68, 1),
    ("datatype", Kind::I16, 70, 1),
    ("bitpix", Kind::I16, 72, 1),
    ("slice_start", Kind::I16, 74, 1),
    ("pixdim", Kind::F32, 76, 8),
    ("vox_offset", Kind::F32, 108, 1),
    ("scl_slope", Kind::F32, 112, 1),
    ("scl_inter", Kind::F32, 116, 1),
    ("slice_end", Kind::I16, 120, 1),
    ("slice_code", Kind::Byte, 122, 1),
    ("xyzt_units", Kind::Byte, 123, 1),
    ("cal_max", Kind::F32, 124, 1),
    ("cal_min", Kind::F32, 128, 1),
    ("slice_duration", Kind::F32, 132, 1),
    ("toffset", Kind::F32, 136, 1),
    ("glmax", Kind::I32, 140, 1),
    ("glmin", Kind::I32, 144, 1),
    ("descrip", Kind::Letter, 148, 80),
    ("aux_file", Kind::Letter, 228, 24),
    ("qform_code", Kind::I16, 252, 1),
    ("sform_code", Kind::I16, 254, 1),
    ("quatern_b", Kind::F32, 256, 1),
    ("quatern_c", Kind::F32, 260, 1),
    ("quatern_d", Kind::F32, 264, 1),
    ("qoffset_x", Kind::F32, 268, 1),
    ("qoffset_y", Kind::F32, 272, 1),
    ("qoffset_z", Kind::F32, 276, 1),
    ("srow_x", Kind::F32, 280, 4),
    ("srow_y", Kind::F32, 296, 4),
    ("srow_z", Kind::F32, 312, 4),
    ("intent_name", Kind::Letter, 328, 16),
    ("magic", Kind::Letter, 344, 4),
    ("sizeof_hdr", Kind::I32, 0, 1),
];

const TWO: [Field; 36] = [
    ("sizeof_hdr", Kind::I32, 0, 1),
    ("magic", Kind::Letter, 4, 4),
    ("datatype", Kind::I16, 12, 1),
    ("bitpix", Kind::I16, 14, 1),
    ("dim", Kind::I64, 16, 8),
    ("intent_p1", Kind::F64, 80, 1),
    ("intent_p2", Kind::F64, 88, 1),
    ("intent_p3", Kind::F64, 96, 1),
    ("pixdim", Kind::F64, 104, 8),
    ("vox_offset", Kind::I64, 168, 1),
    ("scl_slope", Kind::F64, 176, 1),
    ("scl_inter", Kind::F64, 184, 1),
    ("cal_max", Kind::F64, 192, 1),
    ("cal_min", Kind::F64, 200, 1),
    ("slice_duration", Kind::F64, 208, 1),
    ("toffset", Kind::F64, 216, 1),
    ("slice_start", Kind::I64, 224, 1),
    ("slice_end", Kind::I64, 232, 1),
    ("descrip", Kind::Letter, 240, 80),
    ("aux_file", Kind::Letter, 320, 24),
    ("qform_code", Kind::I32, 344, 1),
    ("sform_code", Kind::I32, 348, 1),
    ("quatern_b", Kind::F64, 352, 1),
    ("quatern_c", Kind::F64, 360, 1),
    ("quatern_d", Kind::F64, 368, 1),
    ("qoffset_x", Kind::F64, 376, 1),
    ("qoffset_y", Kind::F64, 384, 1),
    ("qoffset_z", Kind::F64, 392, 1),
    ("srow_x", Kind::F64, 400, 4),
    ("srow_y", Kind::F64, 432, 4),
    ("srow_z", Kind::F64, 464, 4),
    ("slice_code", Kind::I32, 496, 1),
    ("xyzt_units", Kind::I32, 500, 1),
    ("intent_code", Kind::I32, 504, 1),
    ("intent_name", Kind::Letter, 508, 16),
    ("dim_info", Kind::Byte, 524, 1),
];

fn damaged(why: impl Into<String>) -> VolumeError {
    VolumeError::Damaged("NIfTI", why.into())
}

/// The bytes of a header, and how to read them.
struct Raw<'a> {
    bytes: &'a [u8],
    fields: &'static [Field],
    /// Whether greater bytes come first.
    big: bool,
}

/// The header of a file, which may be packed by gzip.
pub(super) fn header(file: &(impl ReadAt + ?Sized), packed: bool) -> Result<Header, VolumeError> {
    let mut room = [0; 540];
    let head = if packed {
        unpack::head(Packing::Gzip, file, &mut room)?
    } else {
        let head = &mut room[..file.len().min(540) as usize];
        file.read_exact_at(head, 0)?;
        head
    };
    let (raw, single) = Raw::find(head)?;
    let (shape, at) = (raw.shape()?, raw.offset(single)?);
    let encoding = if packed { Encoding::Packed(Packing::Gzip) } else { Encoding::Raw };
    let stored = Stored {
        encoding,
        swapped: raw.big != cfg!(target_endian = "big"),
        at: if packed { 0 } else { at },
        lines: 0,
        skip: Skip::Bytes(if packed { at } else { 0 }),
        // What follows is nobody's, and some programs leave something there.
        exact: false,
    };
    Ok(Header {
        dtype: raw.dtype()?,
        spacing: raw.spacings(&shape)?,
        shape,
        scaling: raw.scaling()?,
        fields: raw.texts(),
        place: if single { Place::Here } else { Place::Beside },
        nifti: true,
        stored,
    })
}

impl<'a> Raw<'a> {
    /// Which version it is, in which order its bytes are, and whether its numbers are in the same file.
    fn find(head: &'a [u8]) -> Result<(Self, bool), VolumeError> {
        let size = *head.first_chunk().ok_or(VolumeError::Unknown)?;
        let (big, size) = match (u32::from_le_bytes(size), u32::from_be_bytes(size)) {
            (size @ (348 | 540), _) => (false, size as usize),
            (_, size @ (348 | 540)) => (true, size as usize),
            _ => return Err(VolumeError::Unknown),
        };
        let bytes = head.get(..size).ok_or_else(|| damaged("it ends in its header"))?;
        let fields: &[_] = if size == 348 { &ONE } else { &TWO };
        let magic = if size == 348 { &bytes[344..348] } else { &bytes[4..8] };
        let single = match magic {
            b"n+1\0" | b"n+2\0" => true,
            b"ni1\0" | b"ni2\0" => false,
            _ => return Err(VolumeError::Unfit("it is an ANALYZE file: NIfTI is read".into())),
        };
        Ok((Self { bytes, fields, big }, single))
    }

    fn chunk<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut chunk = *self.bytes[at..].first_chunk().expect("fields lie in the header");
        if self.big {
            chunk.reverse();
        }
        chunk
    }

    /// The numbers of a field.
    fn numbers(&self, name: &str) -> Vec<f64> {
        let field = self.fields.iter().find(|field| field.0 == name);
        let (_, kind, at, count) = *field.expect("both versions have the field");
        (0..count).map(|number| self.number(kind, at, number)).collect()
    }

    fn number(&self, kind: Kind, at: usize, number: usize) -> f64 {
        match kind {
            Kind::Byte | Kind::Letter => f64::from(self.bytes[at + number]),
            Kind::I16 => f64::from(i16::from_le_bytes(self.chunk(at + 2 * number))),
            Kind::I32 => f64::from(i32::from_le_bytes(self.chunk(at + 4 * number))),
            Kind::I64 => i64::from_le_bytes(self.chunk(at + 8 * number)) as f64,
            Kind::F32 => f64::from(f32::from_le_bytes(self.chunk(at + 4 * number))),
            Kind::F64 => f64::from_le_bytes(self.chunk(at + 8 * number)),
        }
    }

    /// All fields in words.
    fn texts(&self) -> Vec<(String, String)> {
        let text = |(name, kind, at, count): &Field| {
            let text = if let Kind::Letter = kind {
                let letters = &self.bytes[*at..at + count];
                let end = letters.iter().position(|letter| *letter == 0).unwrap_or(*count);
                String::from_utf8_lossy(&letters[..end]).into_owned()
            } else {
                let numbers = (0..*count).map(|number| match kind {
                    // As short as can be without becoming another number.
                    Kind::F32 => f32::from_le_bytes(self.chunk(at + 4 * number)).to_string(),
                    _ => self.number(*kind, *at, number).to_string(),
                });
                numbers.collect::<Vec<_>>().join(" ")
            };
            ((*name).to_owned(), text)
        };
        self.fields.iter().map(text).collect()
    }

    fn shape(&self) -> Result<Vec<usize>, VolumeError> {
        let dim = self.numbers("dim");
        let axes = dim[0];
        if !(1.0..=7.0).contains(&axes) {
            return Err(damaged(format!("it has {axes} axes: it should have 1 to 7")));
        }
        let extents = &dim[1..=axes as usize];
        if extents.iter().any(|extent| *extent < 1.0) {
            return Err(damaged(format!("its extents are {extents:?}: they should be 1 or more")));
        }
        Ok(extents.iter().map(|extent| *extent as usize).collect())
    }

    fn dtype(&self) -> Result<DType, VolumeError> {
        Ok(match self.numbers("datatype")[0] as i64 {
            2 => DType::U8,
            4 => DType::I16,
            8 => DType::I32,
            16 => DType::F32,
            64 => DType::F64,
            256 => DType::I8,
            512 => DType::U16,
            768 => DType::U32,
            1024 => DType::I64,
            1280 => DType::U64,
            code => {
                let name = match code {
                    32 | 1792 | 2048 => "complex ones",
                    128 | 2304 => "colours",
                    1536 => "floats of 128 bits",
                    _ => "of a type that is not known",
                };
                return Err(VolumeError::Unfit(format!(
                    "its numbers are {name} (datatype {code}), which are not read"
                )));
            }
        })
    }

    /// Where its numbers begin.
    fn offset(&self, single: bool) -> Result<u64, VolumeError> {
        let offset = self.numbers("vox_offset")[0];
        // Behind the header, four bytes say whether more than it follows.
        let least = if single { self.bytes.len() as f64 + 4.0 } else { 0.0 };
        if offset >= least && offset < (1u64 << 40) as f64 {
            Ok(offset as u64)
        } else {
            Err(damaged(format!("its numbers begin at byte {offset}: it should be {least} or more")))
        }
    }

    /// The first three axes lie in space. One of a single number needs no spacing.
    fn spacings(&self, shape: &[usize]) -> Result<Vec<Option<f64>>, VolumeError> {
        let pixdim = self.numbers("pixdim");
        let one = |(axis, extent): (usize, &usize)| {
            let value = pixdim[axis + 1];
            if axis < 3 && *extent > 1 {
                spacing("NIfTI", axis, value)
            } else {
                Ok(Some(value).filter(|value| axis < 3 && value.is_normal()).map(f64::abs))
            }
        };
        shape.iter().enumerate().map(one).collect()
    }

    /// A slope that cannot be one says that there is none.
    fn scaling(&self) -> Result<Option<(f64, f64)>, VolumeError> {
        let (slope, intercept) = (self.numbers("scl_slope")[0], self.numbers("scl_inter")[0]);
        if slope == 0.0 || !slope.is_finite() || (slope, intercept) == (1.0, 0.0) {
            return Ok(None);
        }
        if !intercept.is_finite() {
            return Err(damaged(format!("its slope is {slope}, but its intercept is {intercept}")));
        }
        Ok(Some((slope, intercept)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::volume::Scratch;

    /// A header of version 1 for two rows of three numbers, and the numbers.
    fn file(big: bool) -> Vec<u8> {
        let mut bytes = vec![0; 352];
        let mut put = |at: usize, value: &[u8]| {
            let places = &mut bytes[at..at + value.len()];
            places.copy_from_slice(value);
            if big {
                places.reverse();
            }
        };
        put(0, &348i32.to_le_bytes());
        for (at, value) in [(40, 2i16), (42, 3), (44, 2), (70, 4), (72, 16)] {
            put(at, &value.to_le_bytes());
        }
        for (at, value) in [(80, 0.5f32), (84, -2.0), (108, 352.0), (112, 0.25), (116, 10.0)] {
            put(at, &value.to_le_bytes());
        }
        bytes[344..347].copy_from_slice(b"n+1");
        for number in -3i16..3 {
            bytes.extend(if big { number.to_be_bytes() } else { number.to_le_bytes() });
        }
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn numbers_and_values_are_read_in_either_order_packed_or_not() {
        for big in [false, true] {
            for bytes in [file(big), gzip(&file(big)), gzip(&[file(big), vec![7; 100]].concat())] {
                let header = Header::read(bytes.as_slice()).unwrap();
                assert_eq!((header.dtype, header.shape.as_slice()), (DType::I16, &[3, 2][..]));
                assert_eq!(header.spacing, [Some(0.5), Some(2.0)]);
                assert_eq!(header.scaling, Some((0.25, 10.0)));
                assert!(header.fields.contains(&("pixdim".into(), "0 0.5 -2 0 0 0 0 0".into())));
                let mut scratch = Scratch::default();
                let mut row = [0; 12];
                header.read_into(bytes.as_slice(), &mut scratch, &mut row).unwrap();
                let expected: Vec<u8> = (-3i16..3).flat_map(i16::to_ne_bytes).collect();
                assert_eq!(row, expected.as_slice());
                let mut values = [0.0; 6];
                header.read_scaled_into(bytes.as_slice(), &mut scratch, &mut values).unwrap();
                assert_eq!(values, [9.25, 9.5, 9.75, 10.0, 10.25, 10.5]);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |at: usize, value: &[u8]| {
            let mut bytes = file(false);
            bytes[at..at + value.len()].copy_from_slice(value);
            let header = Header::read(bytes.as_slice())?;
            header.read_into(bytes.as_slice(), &mut Scratch::default(), &mut vec![0; header.bytes()])
        };
        with(0, &[]).unwrap();
        for (what, at, value) in [
            ("no axes", 40, &0i16.to_le_bytes()[..]),
            ("eight axes", 40, &8i16.to_le_bytes()),
            ("a negative extent", 42, &(-3i16).to_le_bytes()),
            ("an extent of nothing", 42, &0i16.to_le_bytes()),
            ("more than there is", 42, &4i16.to_le_bytes()),
            ("complex numbers", 70, &32i16.to_le_bytes()),
            ("no type", 70, &0i16.to_le_bytes()),
            ("a spacing of nothing", 80, &0f32.to_le_bytes()),
            ("a spacing that is none", 80, &f32::NAN.to_le_bytes()),
            ("an endless spacing", 84, &f32::INFINITY.to_le_bytes()),
            ("numbers in the header", 108, &100f32.to_le_bytes()),
            ("numbers nowhere", 108, &f32::NAN.to_le_bytes()),
            ("numbers far away", 108, &1e30f32.to_le_bytes()),
            ("a slope without an intercept", 116, &f32::NAN.to_le_bytes()),
            ("an older format", 344, b"\0\0\0\0"),
        ] {
            assert!(with(at, value).is_err(), "{what}");
        }
        assert!(Header::read(&file(false)[..347]).is_err());
        assert!(Header::read(gzip(&file(false)[..347]).as_slice()).is_err());
    }
}
