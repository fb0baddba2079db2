"""A journal survives a death in mid-record, and is read without being loaded as a whole."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from unpooled.network.storage.journal import JOURNAL, Journal


def test_a_record_that_was_not_written_to_its_end_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal = Journal(path)
    for i in range(3):
        journal.append({"exchange": i}, {"A": bytes(i), "B": b"words" * i})
    journal.close()
    whole = path.read_bytes()
    for end in range(len(whole) - 30, len(whole)):
        path.write_bytes(whole[:end])
        again = Journal(path)
        assert [header["exchange"] for header, _ in again.records] == [0, 1]
        assert again.records[1][1] == {"A": bytes(1), "B": b"words"}
        again.append({"exchange": 2}, {"A": bytes(2), "B": b"words" * 2})
        again.close()
        assert path.read_bytes() == whole
    place = whole.rindex(b"exchange")  # in the last header
    path.write_bytes(whole[:place] + b"!" + whole[place + 1 :])
    again = Journal(path)
    assert len(again.records) == 2
    again.close()


def test_a_journal_larger_than_memory_is_read_record_by_record(tmp_path: Path) -> None:
    path, size = tmp_path / JOURNAL, 4 * 2**20
    journal = Journal(path)
    for i in range(8):
        journal.append({"exchange": i}, {"A": bytes([i]) * size})
    journal.close()
    tracemalloc.start()
    again = Journal(path)
    for i, (header, parts) in enumerate(again.records):
        assert header["exchange"] == i
        assert parts["A"][0] == i
    assert tracemalloc.get_traced_memory()[1] < 3 * size
    tracemalloc.stop()
    assert again.records[-1][0]["exchange"] == 7
    again.close()
