"""Texts without Python, beside torch, the study's own functions and ``tokenizers`` called from Python."""

import csv
import json
import os
import pickle
import random
from pathlib import Path

import feedline
import numpy as np
import pytest
import torch
from feedline import DataLoader, Text
from feedline.bench.studies.text import LONGEST, NUMBERS, padded, tokens
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Subset

tokenizers = pytest.importorskip("tokenizers")

WORKERS = [0, 1, 2, 4]
WORDS = [
    "a",
    "good",
    "film",
    "Not",
    "THAT",
    "bad",
    "ÄRGER",
    "naïve",
    "σίσυφος",
    "ΣΊΣΥΦΟΣ",
    "İstanbul",
    "映画",
    "don't",
]
WORDS += ["\u2003wide", "\x1cspaces\x85", "zero\0", "two\u200bwords", "no\xa0break"]


def texts(count: int = 57) -> list[str]:
    rng = random.Random(7)
    made = [" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) for _ in range(count)]
    made[3], made[11] = "", " \t\n "
    return made


@pytest.fixture(scope="module")
def reviews() -> list[str]:
    return texts()


@pytest.fixture
def jsonl(tmp_path, reviews):
    path = tmp_path / "reviews.jsonl"
    rows = (json.dumps({"id": 1, "text": text, "label": number}) for number, text in enumerate(reviews))
    path.write_text("\n".join(rows))
    return path


def same(one, other) -> bool:
    return len(one) == len(other) and all(
        len(a) == len(b) and all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=True)
    )


def expected(reviews, batch_size: int, order=None):
    """What torch and the study's Python make."""
    samples = [(tokens(text), number) for number, text in enumerate(reviews)]
    order = range(len(samples)) if order is None else order
    samples = [samples[index] for index in order]
    return [padded(samples[start : start + batch_size]) for start in range(0, len(samples), batch_size)]


# Sources


@pytest.mark.parametrize("workers", WORKERS)
def test_jsonl_is_what_python_makes_of_it(jsonl, reviews, workers):
    text = Text.jsonl(jsonl).tokenize(NUMBERS).truncate(LONGEST)
    loader = DataLoader(text, batch_size=8, num_workers=workers, native="require")
    assert same(list(loader), expected(reviews, 8))
    assert "without Python" in loader.explain()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_csv_is_what_python_makes_of_it(tmp_path, reviews, workers, delimiter):
    path = tmp_path / "reviews.csv"
    quoted = [f'{text}, "so"\nit said;\t' for text in reviews]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["label", "review", "rest"])
        writer.writerows([number, text, "x"] for number, text in enumerate(quoted))
    text = Text.csv(path, text="review", delimiter=delimiter).tokenize(NUMBERS)
    assert same(list(DataLoader(text, batch_size=8, num_workers=workers)), expected(quoted, 8))


@pytest.mark.parametrize("workers", [0, 2])
def test_files_and_folders_are_what_python_makes_of_them(tmp_path, reviews, workers):
    for number, text in enumerate(reviews):
        path = tmp_path / ("neg", "pos")[number % 2] / f"{number:03}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "pos" / "notes.md").write_text("not one of them")
    folder = Text.folder(tmp_path).tokenize(NUMBERS)
    assert (folder.classes, len(folder)) == (["neg", "pos"], len(reviews))
    order = [*range(0, len(reviews), 2), *range(1, len(reviews), 2)]
    made = list(DataLoader(folder, batch_size=8, num_workers=workers))
    assert torch.cat([labels for _, labels in made]).tolist() == [index % 2 for index in order]
    reference = expected(reviews, 8, order)
    assert all(torch.equal(ids, other) for (ids, _), (other, _) in zip(made, reference, strict=True))
    paths = [tmp_path / ("neg", "pos")[number % 2] / f"{number:03}.txt" for number in range(len(reviews))]
    files = Text.files(paths, range(len(reviews))).tokenize(NUMBERS)
    assert same(list(DataLoader(files, batch_size=8, num_workers=workers)), expected(reviews, 8))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
def test_tokens_are_gathered(reviews, workers, dtype):
    arrays = [tokens(text).numpy().astype(dtype) for text in reviews]
    text = Text.tokens(arrays, range(len(reviews)))
    loader = DataLoader(text, batch_size=8, num_workers=workers, native="require")
    assert same(list(loader), expected(reviews, 8))
    assert "gathered from memory" in loader.explain()
    flat, offsets = np.concatenate(arrays), np.cumsum([0, *map(len, arrays)])
    again = Text.tokens(flat, range(len(reviews)), offsets=offsets)
    assert same(list(DataLoader(again, batch_size=8)), expected(reviews, 8))


def test_numbers_of_any_size_are_kept():
    rows = [[-1, 2**62], [3], []]
    ids, labels = next(iter(DataLoader(Text.tokens(rows), batch_size=3)))
    assert ids.tolist() == [[-1, 2**62], [3, 0], [0, 0]]
    assert labels.tolist() == [0, 0, 0]


def test_a_sample_is_numbers_and_a_label(reviews):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS).truncate(5)
    for index in (0, 3, 7, -1):
        ids, label = text[index]
        assert torch.equal(ids, tokens(reviews[index])[:5])
        assert ids.dtype == torch.int64
        assert label == range(len(reviews))[index]
    with pytest.raises(IndexError):
        text[len(reviews)]
    assert text.lengths() == [len(tokens(review)[:5]) for review in reviews]


def test_it_pickles(jsonl, reviews):
    for text in (
        Text.jsonl(jsonl).tokenize(NUMBERS).truncate(9).mask(),
        Text.strings(reviews).tokenize(NUMBERS).ragged(),
        Text.tokens([[1, 2], [3]], [4, 5]).pad(to=4, id=7),
    ):
        again = pickle.loads(pickle.dumps(text))
        assert same(list(DataLoader(again, batch_size=4)), list(DataLoader(text, batch_size=4)))


# Tokenizers


def trained(reviews, kind: str):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(reviews, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_tokenizers_give_what_they_give_in_python(tmp_path, reviews, kind, special, workers):
    tokenizer = trained(reviews, kind)
    # Whatever the file says of padding, batches are padded as is asked for.
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokenizer.no_padding()
    for most in (None, 12, 2):
        if most is not None:
            tokenizer.enable_truncation(most)
        rows = [torch.tensor(tokenizer.encode(text, add_special_tokens=special).ids) for text in reviews]
        reference = [
            pad_sequence([row.long() for row in rows[start : start + 8]], batch_first=True, padding_value=3)
            for start in range(0, len(rows), 8)
        ]
        for given in (tmp_path / "tokenizer.json", str(tmp_path / "tokenizer.json"), tokenizer):
            text = Text.strings(reviews).tokenize(given, special_tokens=special).pad(id=3)
            text = text if most is None else text.truncate(most)
            made = list(DataLoader(text, batch_size=8, num_workers=workers, native="require"))
            assert all(torch.equal(ids, other) for (ids, _), other in zip(made, reference, strict=True))


def test_a_tokenizer_of_transformers_is_taken_as_well(reviews):
    class Fast:
        backend_tokenizer = trained(reviews, "bpe")

    text = Text.strings(reviews).tokenize(Fast())
    assert text[0][0].tolist() == Fast.backend_tokenizer.encode(reviews[0]).ids


def test_bad_tokenizers_are_refused(tmp_path, reviews):
    text = Text.strings(reviews)
    (tmp_path / "bad.json").write_text('{"model": 3}')
    with pytest.raises(ValueError, match=r"bad\.json: it is not a tokenizer"):
        text.tokenize(tmp_path / "bad.json")[0]
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        text.tokenize(tmp_path / "none.json")[0]
    with pytest.raises(TypeError, match="not function"):
        text.tokenize(tokens)
    with pytest.raises(ValueError, match="0 numbers"):
        text.tokenize(0)[0]
    with pytest.raises(ValueError, match="use tokenize"):
        text[0]
    with pytest.raises(ValueError, match="numbers already"):
        Text.tokens([[1]]).tokenize(10)[0]
    with pytest.raises(ValueError, match="puts 2 numbers around a text, more than 1"):
        text.tokenize(trained(reviews, "bpe")).truncate(1)[0]


# Batches


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ready", [True, False])
def test_padding_masks_and_ragged_batches_are_those_of_torch(reviews, workers, ready):
    rows = [tokens(text)[:9] for text in reviews]
    text = Text.tokens(rows) if ready else Text.strings(reviews).tokenize(NUMBERS).truncate(9)

    def batches(text):
        return list(DataLoader(text, batch_size=10, num_workers=workers, native="require"))

    groups = [rows[start : start + 10] for start in range(0, len(rows), 10)]
    for (ids, mask, _), group in zip(batches(text.pad(id=-1).mask()), groups, strict=True):
        assert torch.equal(ids, pad_sequence(group, batch_first=True, padding_value=-1))
        ones = pad_sequence([torch.ones_like(row) for row in group], batch_first=True)
        assert torch.equal(mask, ones)
    for (ids, _), group in zip(batches(text.pad(to=12)), groups, strict=True):
        assert ids.shape == (len(group), 12)
        assert torch.equal(ids[:, :9], pad_sequence([*group, torch.zeros(9).long()], batch_first=True)[:-1])
        assert not ids[:, 9:].any()
    for (values, offsets, labels), group in zip(batches(text.ragged()), groups, strict=True):
        assert torch.equal(values, torch.cat(group))
        assert offsets.tolist() == np.cumsum([0, *map(len, group)]).tolist()
        assert len(labels) == len(group)


def test_batches_of_nothing_but_empty_texts():
    text = Text.strings(["", " "], [4, 5]).tokenize(10)
    for steps in (text, text.mask(), text.ragged()):
        made = next(iter(DataLoader(steps, batch_size=2)))
        assert made[-1].tolist() == [4, 5]
        assert made[0].numel() == 0


def test_torchs_own_loader_gives_the_same(reviews):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    for steps in (text, text.mask().pad(id=9), text.pad(to=64), text.ragged()):
        theirs = list(torch.utils.data.DataLoader(steps, batch_size=8, collate_fn=steps.collate))
        assert same(list(DataLoader(steps, batch_size=8, num_workers=2)), theirs)
        assert same(list(DataLoader(steps, batch_size=8, num_workers=2, native="off")), theirs)


def test_steps_leave_the_old_object_as_it_was():
    text = Text.strings(["a b c"]).tokenize(10)
    for changed in (text.truncate(1), text.pad(to=5), text.mask(), text.ragged(), text.tokenize(20)):
        assert changed is not text
    assert len(text[0][0]) == 3
    assert len(next(iter(DataLoader(text)))) == 2


# The loader


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("ready", [True, False])
def test_a_shuffle_is_torchs(reviews, workers, ready):
    text = Text.tokens([tokens(text) for text in reviews], range(len(reviews)))
    if not ready:
        text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    plain = [(tokens(text), number) for number, text in enumerate(reviews)]
    subset = random.Random(1).sample(range(len(reviews)), 40)
    for mine, theirs in ((text, plain), (Subset(text, subset), Subset(plain, subset))):
        torch.manual_seed(3)
        loader = torch.utils.data.DataLoader(theirs, batch_size=8, shuffle=True, collate_fn=padded)
        reference = [list(loader), list(loader)]
        torch.manual_seed(3)
        loader = DataLoader(mine, batch_size=8, shuffle=True, num_workers=workers)
        assert same(list(loader), reference[0])
        assert same(list(loader), reference[1])


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("ready", [True, False])
def test_every_place_can_be_gone_on_from(reviews, workers, ready):
    text = (
        Text.tokens([tokens(text) for text in reviews]) if ready else Text.strings(reviews).tokenize(NUMBERS)
    )

    def loader(workers):
        generator = torch.Generator().manual_seed(5)
        return DataLoader(text, batch_size=8, shuffle=True, num_workers=workers, generator=generator)

    whole = loader(workers)
    reference = [list(whole), list(whole)]
    for place in range(len(reference[0]) + 1):
        first = loader(workers)
        batches = iter(first)
        for _ in range(place):
            next(batches)
        state = json.loads(json.dumps(first.state_dict()))
        for others in {workers, 0, 2}:
            second = loader(others)
            second.load_state_dict(state)
            assert same(list(second), reference[0][place:])
            assert same(list(second), reference[1])


@pytest.mark.parametrize("workers", WORKERS)
def test_an_epoch_may_be_left_early_and_workers_may_persist(reviews, workers):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    for persistent in {False, workers > 0}:
        loader = DataLoader(text, batch_size=8, num_workers=workers, persistent_workers=persistent)
        for _ in range(3):
            assert same([next(iter(loader))], expected(reviews, 8)[:1])
            assert same(list(loader), expected(reviews, 8))


def test_threads_end_with_the_iterator(reviews):
    def threads():
        return len(list(Path("/proc/self/task").iterdir()))

    text = Text.strings(reviews).tokenize(NUMBERS)
    loader = DataLoader(text, batch_size=8, num_workers=3)
    before = threads()
    batches = iter(loader)
    next(batches)
    # No more than there are processors, because these compute.
    assert before < threads() <= before + 3
    del batches
    assert threads() == before
    batches = iter(loader)
    list(batches)
    assert threads() == before


def test_batches_stay_as_they_are_while_they_are_held(reviews):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    loader = DataLoader(text, batch_size=2, num_workers=2)
    held = [list(loader) for _ in range(3)]
    for epoch in held:
        assert same(epoch, expected(reviews, 2))


def test_a_forked_process_can_go_on(reviews):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    batches = iter(DataLoader(text, batch_size=8, num_workers=2))
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            code = 0 if same(list(batches), expected(reviews, 8)[1:]) else 1
            del batches
        except BaseException:
            code = 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same(list(batches), expected(reviews, 8)[1:])


def test_figures_are_told(reviews):
    text = Text.strings(reviews).tokenize(NUMBERS)
    loader = DataLoader(text, batch_size=8, num_workers=2)
    list(loader)
    stats = loader.stats()
    assert (stats["batches"], stats["rows"]) == (8, len(reviews))
    assert "made by 2 threads without Python" in loader.explain()
    assert "num_workers is 0" in (inline := DataLoader(text), list(inline), inline.explain())[2]


def test_a_trace_has_every_batch(tmp_path, reviews):
    text = Text.strings(reviews).tokenize(NUMBERS)
    list(DataLoader(text, batch_size=8, num_workers=2, trace=tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())
    assert [event["args"]["batch"] for event in events if event["name"] == "load"] == list(range(8))


def test_native_can_be_refused_and_required(reviews):
    text = Text.strings(reviews, range(len(reviews))).tokenize(NUMBERS)
    loader = DataLoader(text, batch_size=8, num_workers=2, worker_init_fn=id)
    with pytest.raises(ValueError, match="worker_init_fn"):
        iter(DataLoader(text, batch_size=8, native="require", worker_init_fn=id))
    assert same(list(loader), expected(reviews, 8))
    assert "because there is a worker_init_fn" in loader.explain()
    own = DataLoader(text, batch_size=8, collate_fn=lambda samples: [label for _, label in samples])
    assert next(iter(own)) == list(range(8))
    assert next(iter(DataLoader(text, batch_size=None)))[1] == 0


# What is wrong with the input


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"not json", "it is not JSON"),
        (b"", None),
        (b'{"text": "a"}', 'it has no field "label"'),
        (b'{"label": 1}', 'it has no field "text"'),
        (b'{"text": 3, "label": 1}', 'expected a string as "text"'),
        (b'{"text": "a", "label": "one"}', 'expected a whole number as "label"'),
        (b'{"text": "a", "label": 1.5}', 'expected a whole number as "label"'),
        (b'{"text": "a\xff", "label": 1}', "it is not JSON: invalid unicode"),
        (b'{"text": "a", "label": 1', "it is not JSON: EOF"),
        (b"[" * 100_000, "expected an object"),
    ],
)
def test_bad_lines_are_named(tmp_path, workers, line, said):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"text": "fine", "label": 0}\n\n' + line + b"\n" + b'{"text": "last", "label": 3}\n')
    loader = DataLoader(Text.jsonl(path).tokenize(9), batch_size=1, num_workers=workers)
    if said is None:
        assert [labels.tolist() for _, labels in loader] == [[0], [3]]
        return
    batches = iter(loader)
    next(batches)
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 3: ") as raised:
        next(batches)
    assert said in str(raised.value)
    assert raised.value.__notes__ == ["(while loading sample 1)"]
    assert next(batches)[1].tolist() == [3]
    for on_error, labels in (("skip", [[0, 3]]), ("replace", [[0, 3, 3]])):
        loader = DataLoader(
            Text.jsonl(path).tokenize(9), batch_size=3, num_workers=workers, on_error=on_error
        )
        assert [labels.tolist() for _, labels in loader] == labels
        (failed,) = loader.failures()
        assert (failed["index"], failed["row"], failed["replaced_by"]) == (
            1,
            1,
            None if on_error == "skip" else 2,
        )
        assert "line 3" in failed["error"]
    loader = DataLoader(Text.jsonl(path).tokenize(9), num_workers=workers, on_error="skip")
    assert [labels.tolist() for _, labels in loader] == [[0], [3]]


def test_bad_records_are_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(b'text,label\r\n"two\r\nlines",1\r\nb,x\r\nc\r\n\xff,1\r\n')
    text = Text.csv(path).tokenize(9)
    for index, said in (
        (1, 'line 4: "label" is "x", not a whole number'),
        (2, 'line 5: it has 1 columns, and "label" would be number 2'),
        (3, "line 6: it is not UTF-8: byte 1"),
    ):
        with pytest.raises(ValueError, match=said):
            text[index]
    with pytest.raises(ValueError, match='it has no column "review"; there are "text", "label"'):
        Text.csv(path, text="review")
    with pytest.raises(ValueError, match="not a byte"):
        Text.csv(path, delimiter="…")


def test_missing_and_empty_files_are_named(tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(ValueError, match="empty: it has no lines"):
        Text.jsonl(empty)
    with pytest.raises(ValueError, match='empty: it has no column "text": it is empty'):
        Text.csv(empty)
    for kind in (Text.jsonl, Text.csv):
        with pytest.raises(FileNotFoundError, match="none"):
            kind(tmp_path / "none")
        with pytest.raises(IsADirectoryError):
            kind(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folders inside"):
        Text.folder(tmp_path)
    (tmp_path / "class").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no text for class: they should end in \.txt"):
        Text.folder(tmp_path)
    (tmp_path / "latin").write_bytes("Ärger".encode("latin-1"))
    files = Text.files([empty, tmp_path / "none", tmp_path / "latin"]).tokenize(9)
    assert files[0][0].tolist() == []
    with pytest.raises(FileNotFoundError, match="none"):
        list(DataLoader(files, batch_size=2, num_workers=2))
    with pytest.raises(ValueError, match="latin: it is not UTF-8: byte 1"):
        files[2]


def test_bad_values_are_named():
    with pytest.raises(TypeError, match="text 1 is of type int, not str"):
        Text.strings(["a", 3])
    with pytest.raises(ValueError, match=r"text 1: .*surrogates not allowed"):
        Text.strings(["a", "\ud800"])
    with pytest.raises(ValueError, match="2 labels for 1 texts"):
        Text.strings(["a"], [1, 2])
    with pytest.raises(ValueError, match="text 1 should be whole numbers in a row, not float64"):
        Text.tokens([[1], [0.5]])
    with pytest.raises(ValueError, match="begin with 0 and end with 3"):
        Text.tokens([1, 2, 3], offsets=[0, 2])
    with pytest.raises(ValueError, match="text 1 would end before it begins"):
        Text.tokens([1, 2, 3], offsets=[0, 2, 1, 3])
    text = Text.tokens([[1, 2, 3]]).pad(to=2)
    with pytest.raises(
        ValueError, match="text 0: it has 3 numbers, more than the 2 it is padded to; truncate it"
    ):
        next(iter(DataLoader(text)))
    with pytest.raises(ValueError, match="too many"):
        next(iter(DataLoader(text.pad(to=2**60))))
    with pytest.raises(ValueError, match='"longest" or a length'):
        text.pad(to="max")
    with pytest.raises(IndexError, match="there is no text 5: there are 1"):
        next(iter(DataLoader(text, sampler=[5])))


def test_it_is_there_by_name():
    assert feedline.Text is Text
    assert {"Text", "LengthBatches", "TokenBatches"} <= set(feedline.__all__)
