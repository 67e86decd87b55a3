//! Forks. The child has the parent's arrays, so it must hold their entries, from its first moment on.
//!
//! Before the fork the parent takes a seat for the child, with holds like its own, and keeps the lock, so that none is
//! added until the child is there. The child then sits down on it. One that is killed before it does leaves a
//! seat that is the parent's, and ends with it.

use std::{mem::forget, sync::atomic::Ordering::Relaxed};

use crate::cache::{cache::Cache, locked::Locked, process::Process};

impl Cache {
    /// To be called by the thread that forks, before it does. It must call one of the two below afterwards.
    pub fn before_fork(&self) {
        let locked = self.lock();
        if let Some(seat) = self.seat()
            && self.holds_any(seat)
        {
            let child = locked.take_seat(locked.process(seat), true);
            if let Some(child) = child {
                self.copy_holds(seat, child);
            }
            self.unborn.store(child.map_or(0, |child| child + 1), Relaxed);
        }
        forget(locked);
    }

    /// After the fork, by the thread that forked, in the parent.
    pub fn after_fork_in_parent(&self) {
        self.unborn.store(0, Relaxed);
        // SAFETY: this thread acquired the lock before the fork.
        unsafe { self.table.head().lock.release() };
    }

    /// After the fork, in the child. The lock is the parent's, who gives it back.
    pub fn after_fork_in_child(&self) {
        let unborn = self.unborn.swap(0, Relaxed).checked_sub(1);
        let parent = (self.seated.swap(0, Relaxed) >> 32) as u32;
        let Some(seat) = unborn else { return };
        let locked = self.lock();
        let kept = &self.table.seats()[seat as usize];
        // If the parent has died meanwhile, somebody may have buried it and all that was its.
        if kept.unborn.load(Relaxed) == 1 && kept.pid.load(Relaxed) == parent {
            self.adopt(&locked, seat);
        }
    }

    fn adopt(&self, _: &Locked<'_>, seat: u32) {
        let (kept, this) = (&self.table.seats()[seat as usize], Process::this());
        kept.start.store(this.start, Relaxed);
        kept.pid.store(this.pid, Relaxed);
        kept.unborn.store(0, Relaxed);
        self.take_seat(seat);
    }

    fn holds_any(&self, seat: u32) -> bool {
        self.held(seat).next().is_some()
    }

    /// The slots that a process holds, and how often.
    fn held(&self, seat: u32) -> impl Iterator<Item = (u32, u16)> + '_ {
        let slots = 0..self.table.slots().len() as u32;
        slots
            .map(move |slot| (slot, self.table.holds(slot)[seat as usize].load(Relaxed)))
            .filter(|(_, n)| *n > 0)
    }

    fn copy_holds(&self, from: u32, to: u32) {
        for (slot, count) in self.held(from) {
            self.table.holds(slot)[to as usize].store(count, Relaxed);
        }
    }
}
