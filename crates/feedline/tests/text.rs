//! Texts as rows: the same batches for any number of workers, padded as is asked for.
#![cfg(feature = "text")]

use std::path::Path;

use feedline::{
    Spec,
    text::{Arena, Jsonl, Padding, Text, Tokens},
};

const LABELS: [i64; 5] = [4, 3, 2, 1, 0];

fn texts() -> Text {
    let texts = ["a good film", "", "Bad", "so so so so", "fine"];
    Text::hashed(Arena::new(texts, LABELS.to_vec()).expect("a label for each"), 1000)
}

fn tokens() -> Text {
    let offsets = vec![0, 3, 3, 4, 8, 9];
    Text::tokens(Tokens::new((1..10).collect(), offsets, LABELS.to_vec()).expect("offsets in order"))
}

#[test]
fn batches_do_not_depend_on_the_workers() {
    for make in [texts, tokens] {
        for padding in [Padding::Longest, Padding::To(6), Padding::Ragged] {
            let epoch = |workers| {
                let text = make().pad(padding, -1);
                let spec = Spec::rows(text).batch_size(2).shuffle(true).seed(3).workers(workers);
                let mut loader = spec.build().unwrap();
                let batches = loader.epoch().map(|batch| {
                    let batch = batch.unwrap();
                    let ids = batch.slice::<i64>("ids").unwrap().to_vec();
                    (
                        ids,
                        batch.extents("ids").unwrap().unwrap().to_vec(),
                        batch.slice::<i64>("label").unwrap().to_vec(),
                    )
                });
                batches.collect::<Vec<_>>()
            };
            let expected = epoch(0);
            assert_eq!(expected.len(), 3);
            for workers in 1..4 {
                assert_eq!(epoch(workers), expected);
            }
        }
    }
}

#[test]
fn a_batch_of_the_engine_is_a_batch_of_the_text() {
    for make in [texts, tokens] {
        let text = make().truncate(2).unwrap();
        let whole = text.batch(&[0, 1, 2, 3, 4]).unwrap();
        let mut loader = Spec::rows(text).batch_size(5).workers(2).build().unwrap();
        let batch = loader.epoch().next().unwrap().unwrap();
        assert_eq!(batch.slice::<i64>("ids").unwrap(), whole.ids());
        assert_eq!(batch.shape("ids").unwrap(), [5, 2]);
        assert_eq!(batch.extents("ids").unwrap().unwrap(), [2, 0, 1, 2, 1]);
        assert_eq!(batch.slice::<i64>("label").unwrap(), LABELS);
    }
}

#[test]
fn a_bad_line_is_named() {
    let lines = b"{\"text\": \"a\"}\n{\"txt\": \"b\"}\n".to_vec();
    let text = Text::hashed(Jsonl::held(Path::new("a.jsonl"), lines, "text", None).unwrap(), 10);
    let mut loader = Spec::rows(text).workers(1).build().unwrap();
    let mut epoch = loader.epoch();
    assert!(epoch.next().unwrap().is_ok());
    let error = epoch.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("a.jsonl, line 2: it has no field \"text\""), "{error}");
}
