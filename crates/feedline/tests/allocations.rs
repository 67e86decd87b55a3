//! In the steady state a batch costs no allocation: neither from the heap nor from the system.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

use std::{
    alloc::{GlobalAlloc, Layout as Bytes, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use feedline::{BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Bytes) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Bytes) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Small {
    ragged: bool,
}

impl Rows for Small {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let tokens = Field::ragged::<u32>("tokens", []).pad_to_longest(0u32);
        let fixed = Field::fixed::<f32>("image", [3, 4]);
        Layout::new(if self.ragged { vec![fixed, tokens] } else { vec![fixed] })
    }

    fn len(&self) -> usize {
        8000
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        row.slice_mut::<f32>(0)?.fill_with(|| rng.uniform() as f32);
        if self.ragged {
            row.write(1, &[7u32; 9][..index % 10])?;
        }
        Ok(())
    }
}

/// The only test of this binary: others would allocate while it counts.
#[test]
fn the_steady_state_allocates_nothing() {
    for ragged in [false, true] {
        for workers in [0, 1, 3] {
            // Few batches, so that each ragged row has soon been as long as it can get.
            let spec = Spec::rows(Small { ragged }).batch_size(16).shuffle(true).workers(workers).prefetch(4);
            let mut loader = spec.build().unwrap();
            // Some epochs to settle: the pool, the queues and the lists grow to what they need.
            for _ in 0..10 {
                loader.epoch().for_each(|batch| drop(batch.unwrap()));
            }
            let mut epoch = loader.epoch();
            epoch.by_ref().take(100).for_each(|batch| drop(batch.unwrap()));
            // In the first half of an epoch of 500 batches: the order of the next one is made towards its end.
            let before = ALLOCATIONS.load(Ordering::SeqCst);
            epoch.by_ref().take(100).for_each(|batch| drop(batch.unwrap()));
            let allocations = ALLOCATIONS.load(Ordering::SeqCst) - before;
            assert!(allocations == 0, "{allocations} allocations, {workers} workers, ragged: {ragged}");
        }
    }
}
