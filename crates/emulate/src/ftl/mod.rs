//! stub
use std::ops::Range;
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub logical_pages: u64,
    pub raw_pages: u64,
    pub pages_per_block: u32,
    pub represent: u32,
}
impl Shape {
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
#[derive(Clone, Copy, Debug)]
pub enum State {
    Fresh,
    Sequential,
    Random { pages_per_write: u32 },
}
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    Host,
    Copy,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    Unwritten,
    Slot(u32),
    NotRepresented,
}
#[derive(Clone, Copy, Debug)]
pub struct Page(pub u32);
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    pub page: Page,
    pub source: u32,
}
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    pub valid: u32,
    pub pages_per_block: u32,
}
#[derive(Debug)]
pub struct Ftl {
    state: State,
    shape: Shape,
    n: u32,
    valid: u32,
}
impl Ftl {
    pub fn new(shape: Shape, state: &State, _w: Range<u64>, _s: u64, _n: u64) -> Self {
        let valid = if matches!(state, State::Random { .. }) {
            (f64::from(shape.pages_per_block) * (1.0 - 1.0 / 2.25)) as u32
        } else {
            0
        };
        Self { state: *state, shape, n: 0, valid }
    }
    pub fn find(&self, _: u64) -> Residence {
        if matches!(self.state, State::Fresh) {
            Residence::Unwritten
        } else {
            Residence::NotRepresented
        }
    }
    pub fn sequential(&self, _: u64) -> bool {
        matches!(self.state, State::Sequential)
    }
    pub fn applies(&mut self, _: u64) -> Option<Page> {
        None
    }
    pub fn reserve(&mut self, _: Stream) -> Option<u32> {
        Some(0)
    }
    pub fn has_room(&self, _: Stream, _: u32) -> bool {
        true
    }
    pub fn commit(&mut self, _: Page, _: u32) {}
    pub fn commit_copy(&mut self, _: Copy, _: u32) -> bool {
        true
    }
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
    pub fn abandon(&mut self, _: u32) {}
    pub fn power_cut(&mut self) {}
    pub fn trim(&mut self, _: u64) {}
    pub fn victim(&mut self) -> Option<Victim> {
        if self.valid == 0 {
            None
        } else {
            Some(Victim { valid: self.valid, pages_per_block: self.shape.pages_per_block })
        }
    }
    pub fn next_copy(&mut self) -> Option<Copy> {
        self.n += 1;
        if self.n * self.shape.represent > self.valid {
            self.n = 0;
            None
        } else {
            Some(Copy { page: Page(0), source: 0 })
        }
    }
    pub fn erase_victim(&mut self) -> bool {
        true
    }
    pub fn free_blocks(&self) -> u32 {
        1
    }
    pub fn pages_per_block(&self) -> u32 {
        self.shape.pages_per_block / self.shape.represent
    }
}
