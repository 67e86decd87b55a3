//! What stands in for [`super::plain`] on machines without its vectors: nothing is plain, libjpeg-turbo has them all.

use crate::pixels::Rect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outline {}

impl Outline {
    pub(super) fn of(_frame: &[u8]) -> Option<Self> {
        None
    }
}

pub(super) enum Plain {}

impl Plain {
    pub(super) fn new() -> Option<Self> {
        None
    }

    pub(super) fn decode(&mut self, _: &[u8], _: Outline, _: Rect, _: usize, _: &mut [u8]) -> Option<()> {
        None
    }
}
