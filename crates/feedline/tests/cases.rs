//! Cases of several volumes: each read once in an epoch, within a bound, by any number of workers.
#![cfg(feature = "images")]

use std::{fs, path::Path};

use feedline::{
    Grouped, Spec,
    cases::{CaseError, Cases},
};

const CASES: usize = 24;
const SAMPLES: usize = 15;
const SHAPE: [usize; 3] = [5, 6, 7];
/// Two volumes: 16-bit numbers, and bytes.
const CASE_BYTES: u64 = 3 * 5 * 6 * 7;

fn write(path: &Path, kind: &str, bytes: &[u8]) {
    let mut file = format!(
        "NRRD0004\ntype: {kind}\ndimension: 3\nsizes: 7 6 5\nspacings: 1 1.5 3\nendian: little\nencoding: raw\n\n"
    )
    .into_bytes();
    file.extend_from_slice(bytes);
    fs::write(path, file).expect("a file can be written");
}

fn patients(root: &Path) -> Cases {
    for number in 0..CASES {
        let folder = root.join(format!("{number:02}"));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let numbers: Vec<u8> = (0..210u16).flat_map(|at| (at + 1000 * number as u16).to_le_bytes()).collect();
        write(&folder.join("ct.nrrd"), "ushort", &numbers);
        write(&folder.join(format!("mask-{number}.nrrd")), "uchar", &[number as u8; 210]);
    }
    Cases::folder(root, &[("ct", "ct.nrrd"), ("mask", "mask*.nrrd")]).expect("there are cases")
}

#[test]
fn every_case_is_read_once_in_an_epoch_and_no_more_is_kept_than_may_be() {
    let root = tempfile::tempdir().unwrap();
    for (workers, batch) in
        [1, 2, 4, 8].into_iter().flat_map(|workers| [1, 2, 4, 8].map(|batch| (workers, batch)))
    {
        // As many as are worked on at once, and more: 16 batches of 8 samples are of nine cases.
        let room = 12 * CASE_BYTES;
        let samples = patients(root.path()).keep(room).samples(SAMPLES, |case, part, _| {
            let (ct, mask) = (case.volume("ct")?.voxels::<u16>()?, case.volume("mask")?.voxels::<u8>()?);
            assert_eq!((ct.extents(), mask.extents()), (SHAPE, SHAPE));
            assert_eq!(usize::from(mask.values()[0]), case.number());
            Ok(ct.values()[part])
        });
        let cases = std::sync::Arc::clone(samples.cases());
        let order = Grouped::new(samples.groups());
        let spec = Spec::values(samples).sampler(order).batch_size(batch).workers(workers);
        let mut loader = spec.epochs(1).build().unwrap();
        let mut seen: Vec<u16> = loader.epoch().flat_map(Result::unwrap).collect();
        seen.sort_unstable();
        let expected: Vec<u16> = (0..CASES as u16)
            .flat_map(|case| (0..SAMPLES as u16).map(move |part| 1000 * case + part))
            .collect();
        assert_eq!(seen, expected);
        let counts = cases.counts();
        assert_eq!(counts.loads, CASES as u64, "{workers} workers, batch {batch}");
        assert!(counts.most_bytes <= room, "{workers} workers, batch {batch}: {}", counts.most_bytes);
    }
}

#[test]
fn what_is_asked_wrongly_is_said() {
    let root = tempfile::tempdir().unwrap();
    let cases = patients(root.path());
    let case = cases.get(3).unwrap();
    let volume = case.volume("ct").unwrap();
    assert_eq!(volume.spacing().unwrap().values(), [3.0, 1.5, 1.0]);
    let other = volume.voxels::<f32>().unwrap_err().to_string();
    assert!(other.contains("ct.nrrd has numbers of type u16, not f32"), "{other}");
    let none = case.volume("pet").unwrap_err().to_string();
    assert_eq!(none, r#"case 3 has no volume "pet"; it has "ct", "mask""#);
    assert!(cases.get(CASES).unwrap_err().to_string().contains("there is no sample 24"));
    let said = |pattern| Cases::folder(root.path(), &[("ct", pattern)]).err().unwrap();
    assert!(matches!(said("*"), CaseError::NotOne { found: 2, .. }));
    assert!(matches!(said("pet.nrrd"), CaseError::NotOne { found: 0, .. }));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Cases::folder(empty.path(), &[]), Err(CaseError::Empty(_))));
    assert!(matches!(Cases::folder(empty.path().join("none"), &[]), Err(CaseError::Unreadable { .. })));
}

#[test]
fn a_case_that_cannot_be_read_fails_alone_and_is_named() {
    let root = tempfile::tempdir().unwrap();
    let cases = patients(root.path());
    let bad = root.path().join("05/ct.nrrd");
    fs::write(&bad, &fs::read(&bad).unwrap()[..150]).unwrap();
    let samples = cases.samples(1, |case, _, _| Ok(case.number()));
    let mut loader = Spec::values(samples).batch_size(1).workers(2).epochs(1).build().unwrap();
    let made: Vec<Result<Vec<usize>, String>> =
        loader.epoch().map(|batch| batch.map_err(|error| format!("{error:?}"))).collect();
    let failed: Vec<&String> = made.iter().filter_map(|batch| batch.as_ref().err()).collect();
    assert_eq!(failed.len(), 1, "{made:?}");
    assert!(failed[0].contains("05/ct.nrrd"), "{failed:?}");
}
