//! WebP, as it is without its transparency.

use libwebp_sys::{VP8StatusCode, WebPBitstreamFeatures, WebPDecodeRGBInto, WebPGetFeatures};

use crate::MediaError;

/// Width and height.
pub(super) fn size(bytes: &[u8]) -> Result<(usize, usize), MediaError> {
    let mut found = std::mem::MaybeUninit::<WebPBitstreamFeatures>::uninit();
    // SAFETY: the bytes are as long as is said, and there is room for the answer.
    let status = unsafe { WebPGetFeatures(bytes.as_ptr(), bytes.len(), found.as_mut_ptr()) };
    match status {
        VP8StatusCode::VP8_STATUS_OK => {}
        VP8StatusCode::VP8_STATUS_NOT_ENOUGH_DATA => return Err(MediaError::Truncated("WebP")),
        _ => return Err(MediaError::Damaged("WebP", "its header cannot be".into())),
    }
    // SAFETY: it was filled in, as the status says.
    let found = unsafe { found.assume_init() };
    if found.has_animation != 0 {
        return Err(MediaError::Unread("WebP", "it moves".into()));
    }
    Ok((found.width as usize, found.height as usize))
}

/// All of an image of this size, three colours to a pixel.
///
/// # Panics
/// If the memory has another size.
pub(super) fn decode(
    bytes: &[u8],
    (width, height): (usize, usize),
    out: &mut [u8],
) -> Result<(), MediaError> {
    assert_eq!(out.len(), 3 * width * height, "memory of another size");
    // SAFETY: both are as long as is said; it writes rows of three bytes for each pixel, and no more than there is room for.
    let written = unsafe {
        WebPDecodeRGBInto(bytes.as_ptr(), bytes.len(), out.as_mut_ptr(), out.len(), 3 * width as i32)
    };
    if written.is_null() {
        return Err(MediaError::Damaged("WebP", "it ends too early, or cannot be".into()));
    }
    Ok(())
}
