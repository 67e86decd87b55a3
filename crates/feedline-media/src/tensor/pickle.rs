//! What a pickle would build, read as data: numbers, texts, tuples, dictionaries and torch's tensors. Nothing is called.

use std::{collections::HashMap, rc::Rc};

/// Objects on the stack and in memory: more are made to take memory.
const MOST: usize = 1 << 16;

/// A tensor, as a pickle describes it: a part of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The type of the storage, by torch's name.
    pub(super) storage: String,
    /// The name of the file that the storage is.
    pub(super) key: String,
    /// Its first number, extents, and numbers from one to the next along each.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// Something that a pickle builds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Text(Rc<str>),
    Tuple(Rc<[Value]>),
    Dict(Rc<Vec<(Value, Value)>>),
    Tensor(Rc<Tensor>),
    /// A class or function, by its name.
    Global(Rc<str>),
    /// Type and name of a storage.
    Storage(Rc<str>, Rc<str>),
    /// Anything else; it is not built.
    Other,
    Mark,
}

/// Reads a pickle. `None` if it is damaged, or has what is not known.
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    Reader { rest: bytes, stack: Vec::new(), memory: HashMap::new() }.run()
}

struct Reader<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    memory: HashMap<u32, Value>,
}

impl<'a> Reader<'a> {
    fn run(mut self) -> Option<Value> {
        loop {
            if self.stack.len() > MOST || self.memory.len() > MOST {
                return None;
            }
            match self.byte()? {
                b'.' => return self.stack.pop(),
                // A version, the length of a frame: they say nothing.
                0x80 => drop(self.byte()?),
                0x95 => drop(self.take(8)?),
                b'(' => self.stack.push(Value::Mark),
                // None, true, false, and lists: of no use here.
                b'N' | 0x88 | 0x89 | b']' => self.stack.push(Value::Other),
                b'G' => {
                    self.take(8)?;
                    self.stack.push(Value::Other);
                }
                b'K' => {
                    let value = self.byte()?.into();
                    self.stack.push(Value::Int(value));
                }
                b'M' => {
                    let value = u16::from_le_bytes(*self.take(2)?.first_chunk()?).into();
                    self.stack.push(Value::Int(value));
                }
                b'J' => {
                    let value = i32::from_le_bytes(*self.take(4)?.first_chunk()?).into();
                    self.stack.push(Value::Int(value));
                }
                0x8a => self.long()?,
                b'X' => {
                    let length = self.length()?;
                    self.text(length)?;
                }
                0x8c => {
                    let length = self.byte()?.into();
                    self.text(length)?;
                }
                b'c' => {
                    let name = format!("{} {}", self.line()?, self.line()?);
                    self.stack.push(Value::Global(name.into()));
                }
                0x93 => {
                    let (Value::Text(name), Value::Text(module)) = (self.stack.pop()?, self.stack.pop()?)
                    else {
                        return None;
                    };
                    self.stack.push(Value::Global(format!("{module} {name}").into()));
                }
                b'q' => {
                    let place = self.byte()?.into();
                    self.remember(place)?;
                }
                b'r' => {
                    let place = self.length()? as u32;
                    self.remember(place)?;
                }
                0x94 => self.remember(self.memory.len() as u32)?,
                b'h' => {
                    let place = self.byte()?.into();
                    self.stack.push(self.memory.get(&place)?.clone());
                }
                b'j' => {
                    let place = self.length()? as u32;
                    self.stack.push(self.memory.get(&place)?.clone());
                }
                b')' => self.stack.push(Value::Tuple(Rc::new([]))),
                b't' => {
                    let values = self.taken_from_mark()?;
                    self.stack.push(Value::Tuple(values.into()));
                }
                count @ 0x85..=0x87 => {
                    let from = self.stack.len().checked_sub(usize::from(count - 0x84))?;
                    let values = self.stack.split_off(from);
                    self.stack.push(Value::Tuple(values.into()));
                }
                b'}' => self.stack.push(Value::Dict(Rc::default())),
                b's' => {
                    let (value, key) = (self.stack.pop()?, self.stack.pop()?);
                    self.add([(key, value)])?;
                }
                b'u' => {
                    let values = self.taken_from_mark()?;
                    let (pairs, _) = values.as_chunks::<2>();
                    self.add(pairs.iter().map(|[key, value]| (key.clone(), value.clone())))?;
                }
                // Nor is what is in a list, or the state of an object.
                b'a' | b'b' => drop(self.stack.pop()?),
                b'e' => drop(self.taken_from_mark()?),
                b'Q' => {
                    let stored = storage(&self.stack.pop()?)?;
                    self.stack.push(stored);
                }
                b'R' => {
                    let (arguments, function) = (self.stack.pop()?, self.stack.pop()?);
                    self.stack.push(called(&function, &arguments)?);
                }
                _ => return None,
            }
        }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn length(&mut self) -> Option<usize> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?) as usize)
    }

    fn line(&mut self) -> Option<&'a str> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(line).ok()
    }

    fn text(&mut self, length: usize) -> Option<()> {
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        self.stack.push(Value::Text(text.into()));
        Some(())
    }

    /// A number of up to eight bytes.
    fn long(&mut self) -> Option<()> {
        let count = usize::from(self.byte()?);
        let bytes = self.take(count)?;
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        value.get_mut(..count)?.copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(value)));
        Some(())
    }

    fn remember(&mut self, place: u32) -> Option<()> {
        self.memory.insert(place, self.stack.last()?.clone());
        Some(())
    }

    fn taken_from_mark(&mut self) -> Option<Vec<Value>> {
        let mark = self.stack.iter().rposition(|value| *value == Value::Mark)?;
        let values = self.stack.split_off(mark + 1);
        self.stack.pop();
        Some(values)
    }

    fn add(&mut self, pairs: impl IntoIterator<Item = (Value, Value)>) -> Option<()> {
        match self.stack.last_mut()? {
            Value::Dict(held) => Rc::make_mut(held).extend(pairs),
            Value::Other => {}
            _ => return None,
        }
        Some(())
    }
}

/// `("storage", type, name, device, count)`.
fn storage(id: &Value) -> Option<Value> {
    let Value::Tuple(parts) = id else { return None };
    let [Value::Text(kind), Value::Global(class), Value::Text(key), ..] = &**parts else { return None };
    let class = class.strip_prefix("torch ")?;
    (&**kind == "storage").then(|| Value::Storage(class.into(), key.clone()))
}

/// What a function would give, if it is one of torch's that make tensors of storages.
fn called(function: &Value, arguments: &Value) -> Option<Value> {
    let (Value::Global(name), Value::Tuple(arguments)) = (function, arguments) else {
        return Some(Value::Other);
    };
    match &**name {
        "torch._utils _rebuild_tensor_v2" => {
            let [
                Value::Storage(storage, key),
                Value::Int(offset),
                Value::Tuple(shape),
                Value::Tuple(strides),
                ..,
            ] = &**arguments
            else {
                return None;
            };
            let numbers = |values: &[Value]| -> Option<Vec<usize>> {
                values
                    .iter()
                    .map(|value| if let Value::Int(value) = value { (*value).try_into().ok() } else { None })
                    .collect()
            };
            Some(Value::Tensor(Rc::new(Tensor {
                storage: storage.to_string(),
                key: key.to_string(),
                offset: (*offset).try_into().ok()?,
                shape: numbers(shape)?,
                strides: numbers(strides)?,
            })))
        }
        "torch._utils _rebuild_parameter" => arguments.first().cloned(),
        "collections OrderedDict" => Some(Value::Dict(Rc::default())),
        _ => Some(Value::Other),
    }
}
