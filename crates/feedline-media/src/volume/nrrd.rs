//! The header of an NRRD file: lines of text, up to an empty one.

use std::collections::HashSet;

use feedline_core::DType;

use super::{
    Header, Place, VolumeError, spacing,
    stored::{Encoding, Skip, Stored},
    unpack::Packing,
};
use crate::tensor::ReadAt;

/// The longest header that is read.
const LONGEST: u64 = 1 << 20;
/// The most axes that the format allows.
const MOST_AXES: usize = 16;

fn damaged(why: impl Into<String>) -> VolumeError {
    VolumeError::Damaged("NRRD", why.into())
}

/// A line of a header.
struct Field {
    name: String,
    value: String,
    /// Whether it means something to whoever wrote it, and nothing to the format.
    is_pair: bool,
}

/// The header of a file that begins with `NRRD`.
pub(super) fn header(file: &(impl ReadAt + ?Sized)) -> Result<Header, VolumeError> {
    let (text, at) = text(file)?;
    let fields = Fields::parse(&text)?;
    let dtype = dtype(fields.needed("type")?)?;
    let shape = shape(&fields)?;
    let encoding = encoding(fields.needed("encoding")?)?;
    let stored = Stored {
        encoding,
        swapped: is_swapped(&fields, dtype, encoding)?,
        at: if fields.get("datafile").is_some() { 0 } else { at },
        lines: fields
            .get("lineskip")
            .map_or(Some(0), |lines| lines.parse().ok())
            .ok_or_else(|| damaged("its line skip is not a number of lines"))?,
        skip: match fields.get("byteskip") {
            None => Skip::Bytes(0),
            Some("-1") => Skip::AllBut,
            Some(skip) => {
                Skip::Bytes(skip.parse().map_err(|_| damaged("its byte skip is not a number of bytes"))?)
            }
        },
        exact: true,
    };
    let (spacing, place) = (spacings(&fields, &shape)?, place(&fields)?);
    let fields = fields.0.into_iter().map(|field| (field.name, field.value)).collect();
    Ok(Header { dtype, shape, spacing, scaling: None, fields, place, nifti: false, stored })
}

/// The lines up to an empty one, or up to the end of the file, and where the line after that begins.
fn text(file: &(impl ReadAt + ?Sized)) -> Result<(String, u64), VolumeError> {
    let mut bytes = Vec::new();
    for room in [1 << 12, 1 << 16, LONGEST] {
        bytes.resize(file.len().min(room) as usize, 0);
        file.read_exact_at(&mut bytes, 0)?;
        let mut at = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line.ends_with(b"\n") && line.trim_ascii().is_empty() {
                let text = String::from_utf8_lossy(&bytes[..at]).into_owned();
                return Ok((text, (at + line.len()) as u64));
            }
            at += line.len();
        }
        if file.len() <= room {
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), file.len()));
        }
    }
    Err(damaged(format!("its header has more than {LONGEST} bytes")))
}

struct Fields(Vec<Field>);

impl Fields {
    fn parse(text: &str) -> Result<Self, VolumeError> {
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix("NRRD")).map(str::trim_end);
        let version = version.and_then(|version| version.parse::<u32>().ok());
        match version.ok_or_else(|| damaged("its first line is not NRRD and a version"))? {
            0..=5 => {}
            version => {
                return Err(VolumeError::Unfit(format!(
                    "its version is {version}: 5 is the last that is read"
                )));
            }
        }
        let (mut fields, mut seen) = (Vec::new(), HashSet::new());
        for line in lines.map(str::trim_end).filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.split_once(':') else {
                let line: String = line.chars().take(40).collect();
                return Err(damaged(format!("its line {line:?} has no colon")));
            };
            let pair = value.strip_prefix('=');
            let (name, value) = (name.trim().to_owned(), pair.unwrap_or(value).trim().to_owned());
            if !seen.insert(name.clone()) {
                return Err(damaged(format!("its field {name:?} is there twice")));
            }
            fields.push(Field { name, value, is_pair: pair.is_some() });
        }
        Ok(Self(fields))
    }

    /// The value of a field. Its name may be written with blanks, and in capital letters.
    fn get(&self, name: &str) -> Option<&str> {
        let is_it = |field: &&Field| {
            let letters =
                field.name.chars().filter(|letter| *letter != ' ').map(|letter| letter.to_ascii_lowercase());
            !field.is_pair && letters.eq(name.chars())
        };
        self.0.iter().find(is_it).map(|field| field.value.as_str())
    }

    fn needed(&self, name: &str) -> Result<&str, VolumeError> {
        self.get(name).ok_or_else(|| damaged(format!("its header has no {name}")))
    }
}

fn dtype(name: &str) -> Result<DType, VolumeError> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "signed char" | "int8" | "int8_t" => DType::I8,
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => DType::U8,
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => DType::I16,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => DType::U16,
        "int" | "signed int" | "int32" | "int32_t" => DType::I32,
        "uint" | "unsigned int" | "uint32" | "uint32_t" => DType::U32,
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => DType::I64,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => DType::U64,
        "float" => DType::F32,
        "double" => DType::F64,
        _ => return Err(VolumeError::Unfit(format!("its numbers are of type {name:?}, which is not read"))),
    })
}

fn shape(fields: &Fields) -> Result<Vec<usize>, VolumeError> {
    let axes: usize =
        fields.needed("dimension")?.parse().map_err(|_| damaged("its dimension is not a number"))?;
    if !(1..=MOST_AXES).contains(&axes) {
        return Err(damaged(format!("its dimension is {axes}: it should be 1 to {MOST_AXES}")));
    }
    let sizes = fields.needed("sizes")?;
    let extents = sizes.split_whitespace().map(|size| size.parse().ok().filter(|extent| *extent > 0));
    let shape: Option<Vec<usize>> = extents.collect();
    match shape {
        Some(shape) if shape.len() == axes => Ok(shape),
        _ => Err(damaged(format!("its sizes are {sizes:?}: they should be {axes} numbers, 1 or more"))),
    }
}

fn encoding(name: &str) -> Result<Encoding, VolumeError> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "raw" => Encoding::Raw,
        "gzip" | "gz" => Encoding::Packed(Packing::Gzip),
        "bzip2" | "bz2" => Encoding::Packed(Packing::Bzip2),
        "ascii" | "text" | "txt" => Encoding::Text,
        "hex" => Encoding::Hex,
        _ => return Err(VolumeError::Unfit(format!("its encoding is {name:?}, which is not read"))),
    })
}

fn is_swapped(fields: &Fields, dtype: DType, encoding: Encoding) -> Result<bool, VolumeError> {
    if dtype.size() == 1 || encoding == Encoding::Text {
        return Ok(false);
    }
    match fields.needed("endian")?.to_ascii_lowercase().as_str() {
        "little" => Ok(cfg!(target_endian = "big")),
        "big" => Ok(cfg!(target_endian = "little")),
        other => Err(damaged(format!("its endian is {other:?}: it should be little or big"))),
    }
}

fn place(fields: &Fields) -> Result<Place, VolumeError> {
    match fields.get("datafile") {
        None => Ok(Place::Here),
        Some("") => Err(damaged("its data file has no name")),
        Some(name) if name.starts_with("LIST") || name.contains('%') => {
            Err(VolumeError::Unfit(format!("its numbers are in several files ({name:?}): one is read")))
        }
        Some(name) => Ok(Place::Named(name.into())),
    }
}

/// How far apart numbers are along each axis: the lengths of its directions, or what is said without them.
fn spacings(fields: &Fields, shape: &[usize]) -> Result<Vec<Option<f64>>, VolumeError> {
    let axes = shape.len();
    let all = |spacings: Option<Vec<Option<f64>>>, what: &str| {
        let spacings = spacings.filter(|spacings| spacings.len() == axes);
        spacings.ok_or_else(|| damaged(format!("its {what} are not {axes} of them, one for each axis")))
    };
    let spacings = if let Some(directions) = fields.get("spacedirections") {
        all(lengths(directions), "space directions")?
    } else if let Some(spacings) = fields.get("spacings") {
        let numbers = spacings.split_whitespace().map(|number| number.parse().ok().map(Some));
        let mut spacings = all(numbers.collect(), "spacings")?;
        // Not a number stands for an axis that is not in space, as of colours; but the others must have one.
        let mut kinds = fields.get("kinds").unwrap_or_default().split_whitespace();
        for value in &mut spacings {
            let in_space = matches!(kinds.next(), None | Some("domain" | "space" | "???" | "none"));
            *value = value.filter(|number: &f64| in_space || !number.is_nan());
        }
        spacings
    } else {
        vec![None; axes]
    };
    let checked =
        |(axis, value): (usize, Option<f64>)| value.map_or(Ok(None), |value| spacing("NRRD", axis, value));
    spacings.into_iter().enumerate().map(checked).collect()
}

/// The lengths of vectors such as `(1,0,0) none (0,0,3)`.
fn lengths(mut text: &str) -> Option<Vec<Option<f64>>> {
    let mut lengths = Vec::new();
    while !text.trim_start().is_empty() {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix("none") {
            lengths.push(None);
            text = rest;
            continue;
        }
        let (vector, rest) = text.strip_prefix('(')?.split_once(')')?;
        let squares = vector.split(',').map(|part| part.trim().parse::<f64>().ok().map(|part| part * part));
        lengths.push(Some(squares.sum::<Option<f64>>()?.sqrt()));
        text = rest;
    }
    Some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Scratch;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [header.as_bytes(), b"\n", data].concat()
    }

    fn read(file: &[u8]) -> Result<(Header, Vec<u8>), VolumeError> {
        let header = Header::read(file)?;
        let mut row = vec![0; header.bytes()];
        header.read_into(file, &mut Scratch::default(), &mut row)?;
        Ok((header, row))
    }

    const SMALL: &str = "NRRD0004\ntype: ushort\ndimension: 2\nsizes: 2 1\nencoding: raw\n";

    #[test]
    fn fields_are_found_however_they_are_written() {
        let text = "NRRD0005\r\n# a comment\r\nType: unsigned short\r\ndimension: 3\r\nsizes: 2 1 1\r\nEncoding: RAW\r\n\
            endian: big\r\nspace directions: none (3, 0,4) (0,0,-2)\r\nbyteskip: 1\r\nline skip: 1\r\nmine:=a := b\r\n";
        let (header, row) =
            read(&[text.as_bytes(), b"\r\n", b"skipped\nx\x01\x02\x03\x04"].concat()).unwrap();
        assert_eq!((header.dtype, header.shape.as_slice()), (DType::U16, &[2, 1, 1][..]));
        assert_eq!(header.spacing, [None, Some(5.0), Some(2.0)]);
        assert_eq!(header.spacing_3d(), None);
        assert_eq!(row, [0x0102u16.to_ne_bytes(), 0x0304u16.to_ne_bytes()].concat());
        let has = |name: &str, value: &str| header.fields.contains(&(name.into(), value.into()));
        assert!(has("mine", "a := b") && has("byteskip", "1") && has("Type", "unsigned short"));
    }

    #[test]
    fn what_is_before_the_numbers_is_skipped() {
        let header = format!("{SMALL}endian: little\nbyte skip: -1\n");
        let (_, row) = read(&file(&header, b"any number of bytes\x01\x00\x02\x00")).unwrap();
        assert_eq!(row, [1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
        assert!(
            matches!(read(&file(&header, b"abc")), Err(VolumeError::Short { .. })),
            "the header is no number"
        );
        assert!(matches!(
            read(&file(&format!("{SMALL}endian: little\nbyte skip: 2\n"), b"\0\0\x01\0\x02")),
            Err(VolumeError::Short { .. })
        ));
    }

    #[test]
    fn a_pair_is_not_a_field() {
        let (header, _) = read(&file(&format!("{SMALL}endian:little\ndata file:=x\n"), &[0; 4])).unwrap();
        assert_eq!(header.place, Place::Here);
    }

    #[test]
    fn a_spacing_need_not_be_there_but_must_be_one() {
        let with = |more: &str| read(&file(&format!("{SMALL}endian: little\n{more}\n"), &[0; 4]));
        assert_eq!(with("").unwrap().0.spacing, [None, None]);
        assert_eq!(with("spacings: 0.5 -2").unwrap().0.spacing, [Some(0.5), Some(2.0)]);
        assert_eq!(with("kinds: vector domain\nspacings: nan 2").unwrap().0.spacing, [None, Some(2.0)]);
        for bad in [
            "spacings: nan 1",
            "spacings: 0 1",
            "spacings: inf 1",
            "spacings: 1",
            "spacings: 1 x",
            "kinds: vector domain\nspacings: 1 nan",
            "space directions: (nan,0) (0,1)",
            "space directions: (0,0) (0,1)",
            "space directions: (1,0)",
            "space directions: (1,0) (0,1",
            "space directions: (1,0) (0,x)",
        ] {
            assert!(matches!(with(bad), Err(VolumeError::Damaged(..))), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for header in [
            "NRRD0006\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\n",
            "NRRDx\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\n",
            "NRRD0005\ndimension: 1\nsizes: 4\nencoding: raw\n",
            "NRRD0005\ntype: block\ndimension: 1\nsizes: 4\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 2\nsizes: 4\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 0\nsizes:\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: -4\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 0\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 5\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 3\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: lzma\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\nencoding: raw\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\nnothing\n",
            "NRRD0005\ntype: short\ndimension: 1\nsizes: 2\nencoding: raw\n",
            "NRRD0005\ntype: short\ndimension: 1\nsizes: 2\nencoding: raw\nendian: middle\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\nline skip: -1\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\nbyte skip: -2\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\nbyte skip: 18446744073709551615\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: raw\ndata file: LIST\n",
            "NRRD0005\ntype: double\ndimension: 3\nsizes: 10000 10000 10000\nencoding: raw\nendian: little\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 18446744073709551615\nencoding: gzip\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 10000\nencoding: gzip\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: gzip\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: bzip2\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: hex\n",
            "NRRD0005\ntype: uchar\ndimension: 1\nsizes: 4\nencoding: text\n",
        ] {
            assert!(read(&file(header, &[0; 4])).is_err(), "{header}");
        }
        let long = format!("NRRD0005\n{}", "# a comment\n".repeat(1 << 17));
        assert!(matches!(read(long.as_bytes()), Err(VolumeError::Damaged(..))));
    }
}
