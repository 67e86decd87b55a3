//! A volume cut for several threads: by planes, or by bands of rows that run through all planes.

use std::thread;

/// How many of `parts` go to each thread; at least one.
pub(super) fn share(parts: usize, threads: usize) -> usize {
    parts.div_ceil(threads.clamp(1, parts.max(1))).max(1)
}

/// Each plane of the volume cut at the same places, `share` values from each other. A band is the pieces at one place.
pub(super) fn bands<T>(values: &mut [T], plane: usize, share: usize) -> Vec<Vec<&mut [T]>> {
    let mut bands: Vec<Vec<&mut [T]>> = Vec::new();
    bands.resize_with(plane.div_ceil(share), Vec::new);
    for plane in values.chunks_exact_mut(plane) {
        for (band, piece) in bands.iter_mut().zip(plane.chunks_mut(share)) {
            band.push(piece);
        }
    }
    bands
}

/// Does all pieces of work at once, each with memory of its own. A single one is done by the caller.
pub(super) fn each<P: Send, M: Default + Send>(
    pieces: Vec<P>,
    memories: &mut Vec<M>,
    work: impl Fn(usize, P, &mut M) + Sync,
) {
    if memories.len() < pieces.len() {
        memories.resize_with(pieces.len(), M::default);
    }
    let mut pieces = pieces.into_iter().zip(memories).enumerate();
    let first = pieces.next();
    thread::scope(|scope| {
        let work = &work;
        for (at, (piece, memory)) in pieces {
            scope.spawn(move || work(at, piece, memory));
        }
        if let Some((at, (piece, memory))) = first {
            work(at, piece, memory);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_every_voxel_once() {
        let mut values = vec![0u8; 3 * 10];
        let found = bands(&mut values, 10, share(10, 4));
        assert_eq!(found.len(), 4);
        each(found, &mut Vec::<u8>::new(), |at, band, _| {
            for piece in band {
                piece.fill(1 + at as u8);
            }
        });
        let plane = [1, 1, 1, 2, 2, 2, 3, 3, 3, 4];
        assert_eq!(values, plane.repeat(3));
    }

    #[test]
    fn there_are_no_more_shares_than_parts() {
        assert_eq!([share(5, 0), share(5, 1), share(5, 2), share(5, 9), share(0, 3)], [5, 5, 3, 1, 1]);
    }
}
