"""Choices of one request, without a worker: what comes in, what goes out, and that nothing is left."""

import asyncio

import pytest

from twofold.engine.stream import Stream
from twofold.serve.admission import Admission
from twofold.serve.errors import ApiError
from twofold.serve.flight import Flight, Flights
from twofold.serve.generation import Choice, Generation
from twofold.serve.life import Life
from twofold.serve.metrics import Metrics


class Bytes:
    hidden = frozenset({0})

    def piece(self, token):
        return bytes([token])


class Setting:
    def __init__(self, choices=1, stop=(), deadline_s=None, unsaid=(), bound_by=None):
        self.now = 0.0
        self.metrics, self.admission = Metrics("m"), Admission(9, None, self.clock)
        self.flights, self.aborted = Flights(), []
        inbox = asyncio.Queue()
        made = [
            Choice(self.flight(n, inbox, bound_by), Stream(Bytes(), stop), self.life(), unsaid) for n in range(choices)
        ]
        self.generation = Generation(made, inbox, self.flights.add, self.abort, deadline_s)

    def flight(self, index, inbox, bound_by):
        return Flight(str(index), index, [1, 2], {}, inbox, bound_by=bound_by)

    def clock(self):
        return self.now

    def life(self):
        return Life(2, 0.0, self.clock, self.admission, self.metrics)

    def abort(self, flight):
        if self.flights.remove(flight):
            self.aborted.append(flight.id)

    def came(self, name, text, finish=None, **more):
        self.flights.deliver([{"id": name, "tokens": list(text.encode()), "finish": finish, **more}])

    async def pieces(self):
        return [(piece.choice, piece.text, piece.finish) async for piece in self.generation.pieces()]

    async def pieces_after(self, *item, **more):
        self.came(*item, **more)
        return await self.pieces()

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, {"model_name": "m", **labels})


def test_pieces_come_as_they_arrive_and_the_end_is_counted():
    async def run():
        setting = Setting(choices=2)
        with setting.generation:
            assert setting.admission.waiting == 2
            setting.now = 1.0
            setting.came("1", "a")
            pieces = setting.generation.pieces()
            assert (await anext(pieces))[:2] == (1, "a")
            setting.came("0", "b", "length")
            setting.came("1", "c", "stop", times={"queued_s": 0.5, "prefill_s": 0.5, "stall_s": 0.0, "decode_s": 0.0})
            assert [(piece.choice, piece.text, piece.finish) async for piece in pieces] == [
                (0, "b", "length"),
                (1, "c", "stop"),
            ]
        assert (setting.admission.waiting, setting.aborted, len(setting.flights)) == (0, [], 0)
        assert setting.value("vllm:request_success_total", finished_reason="stop") == 1
        assert setting.value("vllm:request_queue_time_seconds_sum") == 0.5
        assert setting.generation.generated == 3
        assert setting.generation.ttft_s == 1.0

    asyncio.run(run())


@pytest.mark.parametrize(
    ("finish", "unsaid", "shown"), [("stop", b"E", "xE"), ("length", b"E", "xEE"), ("stop", b"", "xEE")]
)
def test_a_token_that_ends_the_text_is_not_in_it(finish, unsaid, shown):
    async def run():
        setting = Setting(unsaid=unsaid)
        with setting.generation:
            setting.came("0", "xE")
            setting.came("0", "E", finish)
            pieces = await setting.pieces()
            assert "".join(text for _, text, _ in pieces) == shown
            assert pieces[-1][2] == finish
        assert setting.generation.generated == 3

    asyncio.run(run())


def test_a_stop_string_over_several_items_ends_the_flight():
    async def run():
        setting = Setting(stop=["END"])
        with setting.generation:
            for text in ("xE", "N", "D and more"):
                setting.came("0", text)
            setting.came("0", "late", "length")
            assert "".join(text for _, text, _ in await setting.pieces()) == "x"
        assert setting.value("vllm:request_success_total", finished_reason="stop") == 1

    asyncio.run(run())


def test_what_came_while_a_piece_was_told_is_one_piece():
    async def run():
        setting = Setting(choices=2)
        logprob = {"chosen": -1.0, "top": []}
        with setting.generation:
            setting.came("0", "ab", logprobs=[logprob] * 2)
            setting.came("1", "x")
            setting.came("0", "c", logprobs=[logprob])
            setting.came("1", "y", "length")
            setting.came("0", "", "error", message="secret")
            pieces = setting.generation.pieces()
            assert await anext(pieces) == (0, "abc", [97, 98, 99], [logprob] * 3, None)
            assert await anext(pieces) == (1, "xy", [120, 121], [], "length")
            with pytest.raises(ApiError) as caught:
                await anext(pieces)
            assert caught.value.status == 500
        assert (setting.aborted, len(setting.flights)) == ([], 0)
        assert setting.generation.generated == 5

    asyncio.run(run())


def test_leaving_aborts_what_is_under_way_and_late_items_are_ignored():
    async def run():
        setting = Setting(choices=2)
        with setting.generation:
            setting.came("0", "b", "stop")
            async for _ in setting.generation.pieces():
                break
        assert setting.aborted == ["1"]
        assert setting.admission.waiting == setting.admission.pending_tokens == 0
        setting.came("1", "late")
        assert setting.value("vllm:request_success_total", finished_reason="abort") == 1

    asyncio.run(run())


@pytest.mark.parametrize(("item", "status"), [({"message": "no", "refused": True}, 400), ({"message": "secret"}, 500)])
def test_errors_of_the_worker(item, status):
    async def run():
        setting = Setting()
        with pytest.raises(ApiError) as caught, setting.generation:
            await setting.pieces_after("0", "", "error", **item)
        assert caught.value.status == status
        assert "secret" not in caught.value.message

    asyncio.run(run())


def test_a_bound_answer_that_cannot_go_on_is_the_clients_error():
    async def run():
        setting = Setting(bound_by="guided_choice")
        with pytest.raises(ApiError, match=r"^guided_choice: ") as caught, setting.generation:
            await setting.pieces_after("0", "", "error", message="secret")
        assert (caught.value.status, caught.value.param) == (400, "guided_choice")
        assert "secret" not in caught.value.message

    asyncio.run(run())


def test_a_deadline_passes():
    async def run():
        setting = Setting(deadline_s=asyncio.get_running_loop().time() + 0.01)
        with pytest.raises(ApiError, match="deadline"), setting.generation:
            await setting.pieces()
        assert setting.aborted == ["0"]

    asyncio.run(run())


def test_a_lost_worker_fails_what_has_tokens_and_keeps_the_rest_once():
    async def run():
        setting = Setting(choices=2)
        with setting.generation:
            setting.came("0", "a")
            setting.flights.lose_worker()
            assert [message["id"] for message in setting.flights.messages()] == ["1"]
            setting.flights.lose_worker()
            assert len(setting.flights) == 0
            with pytest.raises(ApiError, match="worker"):
                await setting.pieces()

    asyncio.run(run())
