//! What is wrong is said, with its own type and in words that tell what to do; nothing panics.
#![allow(clippy::unwrap_used)] // A test that panics has failed, as it should.

mod support;

use feedline::{Error, OnFailure, PlanError, Shard, ShardError, Spec, SpecError, State, StateError, Subset};
use support::Numbers;

fn refusal<B: Send + 'static>(spec: Spec<B>) -> SpecError {
    match spec.build() {
        Ok(_) => panic!("it was built"),
        Err(error) => error,
    }
}

fn spec() -> Spec<Vec<support::Seen>> {
    Spec::values(Numbers::new(10)).workers(2)
}

#[test]
fn a_batch_size_of_zero() {
    let error = refusal(spec().batch_size(0));
    assert!(matches!(error, SpecError::BatchSize));
    assert_eq!(error.to_string(), "the batch size is 0; it must be at least 1");
}

#[test]
fn an_empty_dataset() {
    assert!(matches!(refusal(Spec::values(Numbers::new(0))), SpecError::EmptyDataset));
    assert!(matches!(refusal(Spec::rows(Numbers::new(0))), SpecError::EmptyDataset));
    assert!(matches!(refusal(Spec::batches(Numbers::new(0))), SpecError::EmptyDataset));
    let error = refusal(spec().sampler(Subset::new(vec![])));
    assert_eq!(error.to_string(), "the sampler \"subset\" has no samples; an epoch would be empty");
}

#[test]
fn an_empty_stream_is_an_empty_epoch() {
    let mut loader = Spec::stream(Numbers::new(0)).workers(2).build().unwrap();
    assert_eq!(loader.epoch().count(), 0);
    assert_eq!(loader.epoch().count(), 0);
}

#[test]
fn a_rank_that_does_not_exist() {
    let error = refusal(spec().shard(4, 4));
    assert!(matches!(error, SpecError::Shard(ShardError::NoSuchRank { rank: 4, world: 4 })));
    assert_eq!(error.to_string(), "rank 4 of 4 does not exist; ranks are 0 to 3");
    assert!(matches!(refusal(spec().shard(0, 0)), SpecError::Shard(ShardError::NoRanks)));
    let too_many = Spec::stream(Numbers::new(9)).sharded(Shard::new(0, 4).unwrap());
    assert!(matches!(refusal(too_many), SpecError::Shards { shards: 3, world: 4 }));
}

#[test]
fn an_epoch_without_a_batch() {
    let error = refusal(spec().batch_size(11).drop_last(true));
    assert!(matches!(error, SpecError::NoBatches { samples: 10, batch_size: 11 }), "{error}");
}

#[test]
fn a_prefetch_bound_of_zero() {
    assert!(matches!(refusal(spec().prefetch(0)), SpecError::Prefetch));
    assert!(matches!(refusal(spec().prefetch_bytes(0)), SpecError::Prefetch));
}

#[test]
fn wishes_that_exclude_each_other() {
    let replace = OnFailure::Replace { tries: 1 };
    assert!(matches!(refusal(Spec::stream(Numbers::new(9)).shuffle(true)), SpecError::Conflict(_)));
    assert!(matches!(refusal(Spec::stream(Numbers::new(9)).on_failure(replace)), SpecError::Conflict(_)));
    assert!(matches!(refusal(Spec::batches(Numbers::new(9)).on_failure(replace)), SpecError::Conflict(_)));
}

#[test]
fn an_index_out_of_range() {
    let mut loader = spec().sampler(Subset::new(vec![0, 1, 10, 2])).batch_size(2).build().unwrap();
    let batches: Vec<_> = loader.epoch().collect();
    assert!(batches[0].is_ok());
    let Err(Error::Plan(error)) = &batches[1] else { panic!("{batches:?}") };
    assert_eq!(*error, PlanError::OutOfRange { index: 10, len: 10, epoch: 0, batch: 1 });
    assert!(error.to_string().contains("sample 10 in batch 1 of epoch 0, but the dataset has 10 samples"));
    assert_eq!(batches.len(), 2);
}

#[test]
fn a_state_of_something_else() {
    let state = spec().seed(1).build().unwrap().state();
    let longer = Spec::values(Numbers::new(11)).seed(1).build().unwrap().restore(&state);
    assert_eq!(longer, Err(StateError::Length { saved: 10, now: 11 }));
    let shuffled = spec().seed(1).shuffle(true).build().unwrap().restore(&state);
    assert!(matches!(shuffled, Err(StateError::Order { .. })));
    let other_seed = spec().seed(2).build().unwrap().restore(&state);
    assert_eq!(other_seed, Err(StateError::Seed { saved: 1, now: 2 }));
    let version = state.to_json().replace("\"version\":1", "\"version\":7");
    assert_eq!(State::from_json(&version), Err(StateError::Version { found: 7 }));
    assert!(matches!(
        refusal(spec().shuffle(true).resume(state)),
        SpecError::State(StateError::Order { .. })
    ));
    assert!(matches!(State::from_json("half a sta"), Err(StateError::Unreadable(_))));
}

/// A state that was tampered with leads to an empty or short epoch, never to a panic.
#[test]
fn a_state_with_impossible_numbers() {
    for json in [
        r#"{"version":1,"seed":0,"len":10,"order":"sequential","stride":1,"epoch":0,"batch":0,"used":18446744073709551615}"#,
        r#"{"version":1,"seed":0,"len":10,"order":"sequential","stride":1,"epoch":18446744073709551614,"batch":0,"used":0}"#,
        r#"{"version":1,"seed":0,"len":10,"order":"sequential","stride":1,"epoch":0,"batch":18446744073709551615,"used":9,"delivered":[1]}"#,
    ] {
        let mut loader = spec().build().unwrap();
        loader.restore(&State::from_json(json).unwrap()).unwrap();
        assert!(loader.epoch().count() <= 10);
    }
    let overflow = r#"{"version":1,"seed":0,"len":10,"order":"sequential","stride":1,"epoch":0,"batch":9,"used":0,"delivered":[18446744073709551615,1]}"#;
    let state = State::from_json(overflow).unwrap();
    assert_eq!(spec().build().unwrap().restore(&state), Err(StateError::Batches));
}

#[test]
fn a_batch_that_memory_cannot_hold() {
    use feedline::{BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng};
    struct Huge;
    impl Rows for Huge {
        fn layout(&self) -> Result<Layout, LayoutError> {
            Layout::new([Field::fixed::<u8>("volume", [1 << 45])])
        }
        fn len(&self) -> usize {
            4
        }
        fn write(&self, _: usize, _: &mut SampleRng, _: &mut RowMut<'_>) -> Result<(), BoxError> {
            unreachable!("there is no row to write")
        }
    }
    let mut loader = Spec::rows(Huge).batch_size(4).workers(1).build().unwrap();
    let batches: Vec<_> = loader.epoch().collect();
    assert_eq!(batches.len(), 1);
    let text = batches[0].as_ref().unwrap_err().to_string();
    assert!(text.starts_with("no memory for a batch of 4 samples"), "{text}");
}

#[test]
fn a_field_that_was_not_written_is_an_error_and_not_what_an_earlier_batch_left_there() {
    use feedline::{BoxError, Field, Layout, LayoutError, RowMut, Rows, SampleRng};
    struct Forgetful;
    impl Rows for Forgetful {
        fn layout(&self) -> Result<Layout, LayoutError> {
            Layout::new([Field::fixed::<u8>("image", [4]), Field::fixed::<i64>("label", [])])
        }
        fn len(&self) -> usize {
            4
        }
        fn write(&self, index: usize, _: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
            if index != 2 {
                row.write("label", &[1i64])?;
            }
            Ok(row.write("image", &[0u8; 4])?)
        }
    }
    let mut loader = Spec::rows(Forgetful).batch_size(2).workers(1).build().unwrap();
    let batches: Vec<_> = loader.epoch().collect();
    assert!(batches[0].is_ok());
    let text = batches[1].as_ref().unwrap_err().to_string();
    assert!(text.contains("sample 2") && text.contains("did not write field \"label\""), "{text}");
}
