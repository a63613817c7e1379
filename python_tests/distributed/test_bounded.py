"""What sharded calls remember of problems stays within a bound."""

from haloconv.distributed.bounded import BoundedDict


def test_a_dictionary_forgets_all_before_it_grows_beyond_its_bound():
    kept = BoundedDict(most=2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3  # no further key
    assert kept == {"a": 3, "b": 2}
    kept["c"] = 4
    assert kept == {"c": 4}


def test_by_default_a_network_s_problems_are_kept():
    kept = BoundedDict()
    for i in range(10_000):
        kept[i] = True
        assert i in kept and len(kept) <= 4096
