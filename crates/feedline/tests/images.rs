//! Images as rows: files to batches, with nothing but this crate.
#![cfg(feature = "images")]

use std::{fs::File, path::Path};

use feedline::{
    DType, OnFailure, Spec,
    files::{Kept, Listed},
    images::{Decode, Images},
};

/// A PNG of one colour.
fn write(path: &Path, (width, height): (u32, u32), colour: [u8; 3]) {
    let mut encoder = png::Encoder::new(File::create(path).expect("a new file"), width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("it is written");
    writer.write_image_data(&colour.repeat((width * height) as usize)).expect("it is written");
}

#[test]
fn a_folder_becomes_batches() {
    let root = tempfile::tempdir().unwrap();
    for (class, colour) in [("cats", [255, 0, 51]), ("dogs", [0, 102, 204])] {
        std::fs::create_dir(root.path().join(class)).unwrap();
        for (name, size) in [("a.png", (40, 30)), ("b.png", (9, 50)), ("c.png", (64, 64))] {
            write(&root.path().join(class).join(name), size, colour);
        }
    }
    for workers in [0, 2] {
        let images =
            Images::folder(root.path()).unwrap().resize(20).centre_crop(16, 8).normalise([0.0], [1.0]);
        let mut loader = Spec::rows(images.build().unwrap()).batch_size(4).workers(workers).build().unwrap();
        let batches: Vec<_> = loader.epoch().map(Result::unwrap).collect();
        assert_eq!(batches[0].shape("image").unwrap(), [4, 3, 8, 16]);
        assert_eq!(batches[0].slice::<i64>("label").unwrap(), [0, 0, 0, 1]);
        let (cat, plane) = (batches[0].slice::<f32>("image").unwrap(), 16 * 8);
        assert!(cat[..plane].iter().all(|red| *red == 1.0));
        assert!(cat[plane..2 * plane].iter().all(|green| *green == 0.0));
        assert!(cat[2 * plane..3 * plane].iter().all(|blue| *blue == 0.2));
        assert_eq!(batches[1].slice::<i64>("label").unwrap(), [1, 1]);
    }
}

#[test]
fn a_file_that_is_no_image_is_named() {
    let root = tempfile::tempdir().unwrap();
    let (good, bad) = (root.path().join("good.png"), root.path().join("bad.png"));
    write(&good, (8, 8), [1, 2, 3]);
    std::fs::write(&bad, "<html>").unwrap();
    let spec = || {
        let files = Listed::new([&good, &bad].into_iter().collect(), vec![5, 6]).unwrap();
        let images = Images::files(files).centre_crop(4, 4).as_bytes();
        Spec::rows(images.build().unwrap()).batch_size(2)
    };
    let error = spec().build().unwrap().epoch().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("bad.png") && error.contains("HTML"), "{error}");
    let mut skipping = spec().on_failure(OnFailure::Skip).build().unwrap();
    let batch = skipping.epoch().next().unwrap().unwrap();
    assert_eq!(batch.slice::<i64>("label").unwrap(), [5]);
    assert_eq!(batch.slice::<u8>("image").unwrap()[..16], [1; 16]);
}

#[test]
fn bytes_in_memory_become_floats_of_any_type_with_rows_of_labels() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.png");
    write(&path, (8, 8), [0, 255, 102]);
    let png: Kept = Box::new(std::fs::read(&path).unwrap());
    let bad: Kept = Box::new(b"<html>".to_vec());
    let files = Listed::memory(vec![png, bad], vec![2, 0]).unwrap().one_hot(3).unwrap();
    let images = Images::files(files).centre_crop(2, 2).cast(DType::F64).decoding(Decode::Fast);
    let spec = Spec::rows(images.build().unwrap()).batch_size(1);
    let mut loader = spec.build().unwrap();
    let batches: Vec<_> = loader.epoch().collect();
    let batch = batches[0].as_ref().unwrap();
    assert_eq!(batch.slice::<f32>("label").unwrap(), [0.0, 0.0, 1.0]);
    let expected = [0.0, 1.0, f64::from(102.0f32 / 255.0)];
    assert_eq!(batch.slice::<f64>("image").unwrap(), expected.map(|value| [value; 4]).concat());
    let error = batches[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("bytes of sample 1") && error.contains("HTML"), "{error}");
}

#[test]
fn what_cannot_be_is_refused() {
    let files = || Images::files(Listed::new(["a.jpg"].iter().collect(), Vec::new()).unwrap());
    let refused = files().resize(256).build().err().unwrap().to_string();
    assert!(refused.contains("end with a crop"), "{refused}");
    assert!(Listed::new(["a.jpg"].iter().collect(), vec![1, 2]).is_err());
    assert!(Listed::new(["a.jpg"].iter().collect(), vec![2]).unwrap().one_hot(2).is_err());
    assert!(files().resize_to(8, 8).cast(DType::U8).build().is_err());
    assert!(files().resize_to(8, 8).as_bytes().cast(DType::F16).build().is_err());
    assert!(files().resize_to(8, 8).as_bytes().normalise([0.5], [0.5]).build().is_err());
    assert!(files().random_resized_crop(8, 8).random_mirror().channels_last().build().is_ok());
    assert!(files().resize_to(8, 8).random_crop(9, 9).build().is_err());
}
