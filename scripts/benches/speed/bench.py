"""The bench itself: measures every case in turns with the peer, and tells what was found."""

import argparse
from collections.abc import Callable
from functools import partial
import json
import os
from pathlib import Path
import sys
import tempfile

from demo_house.folder import ROOT
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import plan_model

from ..peers import peer_fault
from ..random_weights import random_model
from .cases import CASES, Case
from .chart import draw
from .machine import MachinePeaks, Others
from .ours import Ours
from .peer import Peer, PeerError
from .question import Satellite
from .report import Figure, Report, Sample
from .work import ModelWork

_MODELS = ROOT / ".local/models"
# A sample counts where all other programs together had no more of the processors than this.
_MOST_FOR_OTHERS = 0.1
# Where they have more, so many times the samples are taken before all of them count.
_PATIENCE = 3
_PROFILED_OPERATIONS = 25
# What torch and its libraries read when they are loaded, to go without AVX-512.
_WITHOUT_AVX512 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def bench(options: argparse.Namespace) -> int:
    """Measure, print, and return 0 where every limit holds; without a peer there is none."""
    if fault := peer_fault(options):
        print(fault)
        return 2
    if options.no_avx512 and not os.environ.items() >= _WITHOUT_AVX512.items():
        command = [sys.executable, "-P", "-m", "benches", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | _WITHOUT_AVX512)
    try:
        with tempfile.TemporaryDirectory(prefix="local-llm-bench-") as scratch:
            report = _measure(options, Path(scratch))
    except PeerError as error:
        print(error)
        return 2
    return _tell(report, options)


def _measure(options: argparse.Namespace, scratch: Path) -> Report:
    folder, config = _model(options, scratch)
    run = _Run(options, folder, config)
    cases = [case for case in CASES if not options.cases or case.name in options.cases]
    # One after the other, so that only one model is in memory.
    figures = [
        *run.of_runner([case for case in cases if case.kind != "first token"]),
        *run.of_question([case for case in cases if case.kind == "first token"]),
    ]
    plan = plan_model(folder, config)
    return Report(
        model=plan.model.name,
        weights=plan.weights,
        dtype=plan.dtype,
        capability=torch.backends.cpu.get_cpu_capability(),
        num_threads=torch.get_num_threads(),
        peer=options.peer_model.name if options.peer else None,
        peaks=run.peaks,
        figures=figures,
    )


def _model(options: argparse.Namespace, scratch: Path) -> tuple[Path, EngineConfig]:
    """Find the model; what is not our own gets nothing written beside it."""
    own_folder: Path | None = scratch
    folder: Path = (options.model or NANO_PATH).resolve()
    if options.random_weights:
        print(f"Writing random weights to {_MODELS}, where they are not there yet.")
        folder, own_folder = random_model(options.random_weights, _MODELS), None
    return folder, EngineConfig(
        weights=options.weights,
        weights_folder=own_folder,
        num_threads=options.threads,
        # What the engine would choose where there is no AVX-512 to multiply bfloat16 with.
        dtype="float32" if options.no_avx512 else "auto",
    )


class _Run:
    """One run of the bench: whom it measures, and how often."""

    def __init__(
        self, options: argparse.Namespace, folder: Path, config: EngineConfig
    ) -> None:
        """Load the model, and find out what the machine could give."""
        self._options = options
        self._folder, self._config = folder, config
        self._work = ModelWork.of(folder, config)
        self._ours = Ours(folder, config)
        self.peaks = MachinePeaks.measure()

    def of_runner(self, cases: list[Case]) -> list[Figure]:
        """Measure prefill and decode."""
        try:
            figures = [
                self._figure(case, partial(self._ours.seconds, case)) for case in cases
            ]
            if self._options.profile:
                for case in cases:
                    self._profile(case)
        finally:
            self._ours.close()
        return figures

    def of_question(self, cases: list[Case]) -> list[Figure]:
        """Measure the time to the first token, at the engine's door."""
        if not cases:
            return []
        satellite = Satellite(self._folder, self._config)
        try:
            satellite.warm_up()
            return [self._figure(case, satellite.ask) for case in cases]
        finally:
            satellite.close()

    def _figure(self, case: Case, ours: Callable[[], float]) -> Figure:
        """Take samples until there are enough that nobody disturbed; the first shows the way, and does not count."""
        print(f"{case.name} ...", flush=True)
        ours()
        wanted: int = self._options.repetitions
        samples: list[Sample] = []
        calm: list[Sample] = []
        while len(calm) < wanted and len(samples) < _PATIENCE * wanted:
            sample = self._sample(case, ours)
            samples.append(sample)
            if sample.others_share <= _MOST_FOR_OTHERS:
                calm.append(sample)
        is_quiet = len(calm) == wanted
        return Figure(
            case=case,
            samples=calm if is_quiet else samples,
            is_quiet=is_quiet,
            work=self._work.of_case(case),
            peaks=self.peaks,
            has_limit=not self._options.no_avx512,
        )

    def _sample(self, case: Case, ours: Callable[[], float]) -> Sample:
        others = Others()
        seconds = ours()
        peer = self._peer
        return Sample(
            seconds=seconds,
            peer_seconds=peer.seconds(case) if peer else None,
            others_share=others.share(),
        )

    @property
    def _peer(self) -> Peer | None:
        if not self._options.peer:
            return None
        return Peer(
            program=self._options.peer.resolve(),
            model=self._options.peer_model.resolve(),
            num_threads=torch.get_num_threads(),
        )

    def _profile(self, case: Case) -> None:
        """Print which operations a case spends its time in."""
        with (
            self._ours.ready(case) as work,
            torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU]
            ) as profile,
        ):
            work()
        averages = profile.key_averages()
        print(f"\n{case.name} by operation")
        print(
            averages.table(
                sort_by="self_cpu_time_total", row_limit=_PROFILED_OPERATIONS
            )
        )


def _tell(report: Report, options: argparse.Namespace) -> int:
    print(f"\n{report}")
    if options.json:
        text = json.dumps(report.as_json(), indent=2)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    if options.chart:
        draw(report, options.chart)
    if not report.is_quiet:
        print("\nOther programs were at work meanwhile: what is disturbed says little.")
    if options.peer and not options.no_avx512:
        told = "Every limit holds." if report.ok else "A limit is broken: see NO above."
        print(f"\n{told}")
    return 0 if report.ok else 1
