"""``manage.py lab``: what an API server shows of a change, recorded and compared."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reverser.errors import ReverserError
from reverser.quantities import parse_address


class Command(BaseCommand):
    """Record traces, compare recordings, list the facts."""

    help = (
        "Record what an API server shows of a change on the watch, in its audit stream and to admission, as "
        "normalised YAML; compare recordings; check the facts that attribution rests on. Without "
        "--kubeconfig the sandbox is recorded. A real API server must post its audit events to http://AUDIT-LISTEN/"
        "audit-webhook, and reach this machine on loopback (or see --cert-dir and --advertise)."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """``record``, ``diff`` and ``facts``."""
        actions = parser.add_subparsers(dest="action", required=True)
        record = actions.add_parser("record", help="run the scenarios and write what was seen")
        record.add_argument("--kubeconfig", default="", help="the cluster; the sandbox if empty")
        record.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the YAML goes")
        record.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="may be repeated")
        record.add_argument("--audit-listen", default="127.0.0.1:0", metavar="HOST:PORT")
        record.add_argument("--admission-listen", default="127.0.0.1:0", metavar="HOST:PORT")
        record.add_argument(
            "--advertise", default="127.0.0.1", metavar="HOST", help="this machine, to the cluster"
        )
        record.add_argument(
            "--cert-dir", type=Path, help="tls.crt, tls.key and ca.crt for that host; self-made for loopback"
        )
        diff = actions.add_parser(
            "diff", help="compare a recording with the committed one, or two recordings"
        )
        diff.add_argument("folder", type=Path, metavar="DIR")
        diff.add_argument("--against", type=Path, metavar="DIR", help="default: the corpus that is shipped")
        actions.add_parser(
            "facts", help="what attribution takes for granted, and the scenario that proves it"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """One of the actions; exit code 1 where something differs or does not hold."""
        {"record": self._record, "diff": self._diff, "facts": self._facts}[options["action"]](options)

    def _record(self, options: dict[str, Any]) -> None:
        from reverser.lab import corpus
        from reverser.lab.facts import broken
        from reverser.lab.scenarios import SCENARIOS

        wanted = [scenario for scenario in SCENARIOS if not options["only"] or scenario.id in options["only"]]
        unknown = set(options["only"]) - {scenario.id for scenario in SCENARIOS}
        if unknown:
            raise CommandError(f"no such scenario: {', '.join(sorted(unknown))}")
        try:
            traces = self._traces(options, wanted)
        except (ReverserError, OSError) as error:
            raise CommandError(str(error)) from error
        corpus.write(traces, options["out"])
        count = sum("skipped" not in trace for trace in traces.values())
        self.stdout.write(f"{count} scenario(s) written to {options['out']}")
        for fact in broken(traces):
            self.stderr.write(
                f"does not hold here: {fact.statement} ({fact.scenario}, used in {fact.used_in})"
            )
        if broken(traces):
            raise SystemExit(1)

    def _traces(self, options: dict[str, Any], wanted: list[Any]) -> dict[str, Any]:
        from reverser.kube.sync import Kube
        from reverser.lab.capabilities import Capabilities, probe
        from reverser.lab.recorder import (
            QUIET_SECONDS,
            SANDBOX_QUIET_SECONDS,
            Receiver,
            own_certificates,
            record,
            registered,
            served,
        )
        from reverser.sandbox.audit import AuditWebhook
        from reverser.sandbox.thread import SandboxServer
        from webhooks.tls import Certificates

        receiver, run = Receiver(), uuid.uuid4().hex[:8]
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-")))
            if options["cert_dir"] is not None:
                certificates = Certificates(options["cert_dir"])
                ca = (options["cert_dir"] / "ca.crt").read_bytes()
            else:
                certificates, ca = own_certificates(folder)
            audit = stack.enter_context(served(receiver, parse_address(options["audit_listen"])))
            port = stack.enter_context(
                served(receiver, parse_address(options["admission_listen"]), certificates)
            )
            kubeconfig = options["kubeconfig"]
            quiet = QUIET_SECONDS if kubeconfig else SANDBOX_QUIET_SECONDS
            if not kubeconfig:
                hook = AuditWebhook(f"http://127.0.0.1:{audit}/audit-webhook", max_wait=0.2)
                sandbox = stack.enter_context(SandboxServer(audit_webhooks=(hook,)))
                kubeconfig = str(sandbox.kubeconfig_path)
                sandbox.faults.compact()  # as after the start of a server that has been used before
            kube = Kube.connect(kubeconfig)
            stack.callback(kube.close)
            needy = bool(options["kubeconfig"]) and any(scenario.needs for scenario in wanted)
            capabilities = probe(kube) if needy else Capabilities()
            url = f"https://{options['advertise']}:{port}/validate-all"
            stack.enter_context(registered(kube, run, url, ca))
            return asyncio.run(
                record(
                    wanted,
                    kubeconfig=kubeconfig,
                    receiver=receiver,
                    run=run,
                    tell=self.stdout.write,
                    quiet=quiet,
                    capabilities=capabilities,
                )
            )

    def _diff(self, options: dict[str, Any]) -> None:
        from reverser.lab import corpus
        from reverser.lab.facts import broken

        found = corpus.read(options["folder"])
        if not found:
            raise CommandError(
                f"{options['folder']} holds no recording; make one with `manage.py lab record`"
            )
        before = corpus.read(options["against"] or corpus.CORPUS)
        for name, lacking in corpus.one_sided(before, found):
            self.stdout.write(f"{name}: not compared, one of the two servers has no {lacking}")
        lines = list(corpus.differences(before, found))
        for line in lines:
            self.stdout.write(line)
        for fact in broken(found):
            self.stdout.write(f"does not hold: {fact.statement} ({fact.scenario}, used in {fact.used_in})")
        if lines or broken(found):
            raise SystemExit(1)
        self.stdout.write("no difference")

    def _facts(self, _options: dict[str, Any]) -> None:
        from reverser.lab import corpus
        from reverser.lab.facts import FACTS, broken, unproved

        shipped = corpus.read(corpus.CORPUS)
        failed = broken(shipped)
        for fact in FACTS:
            holds = "skip" if unproved(fact, shipped) else "FAIL" if fact in failed else "ok"
            self.stdout.write(f"{holds:<5}{fact.scenario:<20}{fact.used_in:<24}{fact.statement}")
