//! How a camera was held, as it wrote it into a JPEG.

/// The number of the orientation in a segment of a JPEG, from 1 (upright) to 8; `None` if it says nothing of it.
pub(super) fn orientation(segment: &[u8]) -> Option<u8> {
    let tiff = segment.strip_prefix(b"Exif\0\0")?;
    let little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let directory = {
        let bytes = *tiff.get(4..)?.first_chunk()?;
        (if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }) as usize
    };
    let entries = usize::from(short(directory)?);
    (0..entries).find_map(|entry| {
        let at = directory + 2 + 12 * entry;
        // The tag, and its type: a short number.
        if (short(at)?, short(at + 2)?) != (0x0112, 3) {
            return None;
        }
        u8::try_from(short(at + 8)?).ok().filter(|number| (1..=8).contains(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_read() {
        let little = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        let big = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
        assert_eq!(orientation(little), Some(6));
        assert_eq!(orientation(big), Some(8));
        for end in 0..little.len() - 2 {
            assert_eq!(orientation(&little[..end]), None, "{end}");
        }
    }
}
