"""A party's file of rows: what is read, and what is refused in a sentence that says where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.sentences import refuses
from unpooled.data.sources import Naming, OwnRows, read_rows

COLUMNS = ("age", "pressure")


def written(folder: Path, content: str | bytes, file: str = "north.csv") -> Path:
    path = folder / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def from_csv(folder: Path, content: str | bytes, identity: str | None = None) -> OwnRows:
    return read_rows(written(folder, content), "North", COLUMNS, Naming(id=identity))


@pytest.mark.parametrize(
    "content",
    [
        "age,pressure\n61,120\n72.5,140\n",
        "pressure,name,age\n120,Ann,61\n140,Bob,72.5\n",
        "age,pressure\r\n61,120\r\n72.5,140",
        "\ufeffage,pressure\n61,120\n\n72.5,140\n\n",
        'age,pressure\n"61","120"\n"72.5","140"\n',
        "age,pressure\n 61 , 120\n72.5,140\n",
        'note,note,age,pressure\n"two\nlines",a,61,120\nb,c,72.5,140\n',
    ],
)
def test_rows_are_read_from_csv(tmp_path: Path, content: str) -> None:
    found = from_csv(tmp_path, content)
    np.testing.assert_array_equal(found.parties.rows, [[61, 120], [72.5, 140]])
    assert found.ids is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "North has .*north.csv, which is empty; give a csv whose first line names"),
        ("\n\n", "which is empty"),
        ("age,pressure\n", "North has no rows in .*north.csv, only names of columns; give"),
        ("age,age,pressure\n1,2,3\n", "has the column 'age' 2 times in .*; rename or drop all but"),
        ("age;pressure\n61,5;120\n", "separated by ';'; save it with commas between columns, and"),
        ("a;b\n1;2\n", "separated by ';'"),
        ("age\tpressure\n61\t120\n", r"separated by '\\t'"),
        ("age,weight\n61,80\n", "no column 'pressure' in .*; it has age, weight: rename one"),
        (
            "age,pressure\n61,120\nNA,130\n",
            r"North has 'NA' in line 3 \(counting the header\) of .*north.csv, where column 'age' "
            "needs a number; fill in or drop rows without a value first",
        ),
        ("age,pressure\n61,?\n", r"'\?' in line 2 .* column 'pressure' .*; fill in or drop"),
        ("age,pressure\n61,120\n,130\n", "has no value in line 3 .* column 'age' .*; fill in"),
        ("age,pressure\n61,120\n62\n", "has no value in line 3 .* column 'pressure'"),
        ("age,pressure\n61,nan\n", "'nan' in line 2"),
        ("age,pressure\n61,inf\n", "'inf' in line 2 .*; make it a finite number"),
        ('age,pressure\n"1,234",120\n', "'1,234' in line 2 .*; write it without separators, as 12"),
        ('age,pressure\n"61,5",120\n', "'61,5' in line 2 .*; write it with a decimal point, as 61"),
        (
            "age,pressure\n61,120\n1,234,130\n",
            "'1,234,130' in line 3 .* 3 values for 2 columns; pu",
        ),
        ("age,pressure\n61,old\n", "'old' in line 2 .*; make it a finite number, or leave the col"),
        ("age,pressure\n\n\n61,120\n62,old\n", "'old' in line 5"),
        ('note,age,pressure\n"a\nb\nc",61,120\nd,62,old\n', "'old' in line 5"),
        ("age,pressure\n61,\x1b[31mred\n", r"has '\\x1b\[31mred' in line 2"),
        ("age,pressure\n61,1_000\n", "'1_000' in line 2"),
        (b"age,pressure\n61,\xff\xfe\n", "cannot be read as csv|in line 2"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said_in_one_sentence(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    refuses(lambda: from_csv(tmp_path, content), words)


def test_an_empty_line_of_an_only_column_is_a_value_that_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "age\n61\n\n62\n")
    refuses(lambda: read_rows(path, "North", ("age",)), "has no value in line 3")


def test_rows_have_names_that_are_read_as_they_stand(tmp_path: Path) -> None:
    found = from_csv(tmp_path, 'patient,age,pressure\n007,61,120\n"P,8",72.5,140\n', "patient")
    assert found.ids == ("patient", ("007", "P,8"))
    assert found.parties.rows.shape == (2, 2)


@pytest.mark.parametrize(
    ("content", "identity", "words"),
    [
        ("id,age,pressure\na,1,2\nb,3,4\na,5,6\n", "id", "the 'id' 'a' in line 2 .* and in line 4"),
        (
            "id,age,pressure\na,1,2\n ,3,4\n",
            "id",
            "no 'id' in line 3 .*; fill it in, or name anoth",
        ),
        ("age,pressure\n1,2\n", "id", "has no column 'id' in .*; it has age, pressure"),
        ("id,id,age,pressure\n1,2,3,4\n", "id", "the column 'id' 2 times"),
        ("age,pressure\n1,2\n", "age", "names its rows by 'age', .*never travels; name another"),
    ],
)
def test_names_of_rows_that_name_none_or_several_are_refused(
    tmp_path: Path, content: str, identity: str, words: str
) -> None:
    refuses(lambda: from_csv(tmp_path, content, identity), words)


def test_other_files_have_names_of_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "north.npz"
    np.savez(path, X=np.ones((2, 2)), id=np.array(["a", "b"]))
    assert read_rows(path, "North", COLUMNS, Naming(id="id")).ids == ("id", ("a", "b"))
    refuses(
        lambda: read_rows(path, "North", COLUMNS, Naming(id="patient")), "no column 'patient' in"
    )
    np.savez(path, X=np.ones((2, 2)), id=np.array([0.5, 1.5]))
    refuses(
        lambda: read_rows(path, "North", COLUMNS, Naming(id="id")), "an array 'id' .*float64 in"
    )
    np.savez(path, X=np.ones((2, 2)), id=np.array([1, 2, 3]))
    refuses(
        lambda: read_rows(path, "North", COLUMNS, Naming(id="id")), "3 values of 'id' .* 2 rows"
    )
    path = tmp_path / "north.parquet"
    frame = pl.DataFrame({"age": [1, 2], "pressure": [3.0, 4.0], "id": [17, 18]})
    frame.write_parquet(path)
    assert read_rows(path, "North", COLUMNS, Naming(id="id")).ids == ("id", ("17", "18"))
    frame.with_columns(age=pl.Series([1, None])).write_parquet(path)
    refuses(lambda: read_rows(path, "North", COLUMNS), "has no value in row 2 of .* column 'age'")
    frame.with_columns(age=pl.Series(["1", "NA"])).write_parquet(path)
    refuses(lambda: read_rows(path, "North", COLUMNS), "has 'NA' in row 2 of .*; fill in or drop")
    np.savez(tmp_path / "nan.npz", X=np.array([[1.0, np.nan]]))
    refuses(lambda: read_rows(tmp_path / "nan.npz", "North", COLUMNS), "'nan' in row 1 of")
