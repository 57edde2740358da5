"""`python -m reverser.sandbox`: a Kubernetes API server for trying things out, as a process of its own."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from reverser.errors import SettingsInvalid
from reverser.sandbox.audit import AuditWebhook
from reverser.sandbox.config import SandboxConfig
from reverser.sandbox.server import ApiServer

_EPILOG = """\
example:
  python -m reverser.sandbox --state-dir .state/sandbox --kubeconfig-out kubeconfig
  KUBECONFIG=kubeconfig kubectl create configmap menu --from-literal=soup=leek

The process prints one line `ready <url>` once it answers, and ends on SIGTERM or Ctrl-C. With --state-dir the
objects, the resourceVersion counter, the certificates and the admin token survive a restart.

faults (admin token needed), for example:
  curl -k -H "Authorization: Bearer $TOKEN" -d '{"do": "drop_watches", "clean": false}' $URL/sandbox/faults
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reverser.sandbox",
        description="A Kubernetes API server in one process: no etcd, no controllers.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="port 0 takes a free one"
    )
    parser.add_argument("--state-dir", type=Path, help="where objects and keys are kept; default: nowhere")
    parser.add_argument("--kubeconfig-out", type=Path, help="write the administrator's kubeconfig here")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help='users: lines of token,user,uid,"group,group"'
    )
    parser.add_argument("--insecure-http", action="store_true", help="plain HTTP instead of TLS")
    parser.add_argument(
        "--finish-namespaces",
        action="store_true",
        help="empty and remove deleted namespaces; a bare API server leaves them Terminating",
    )
    parser.add_argument("--history", type=int, default=20_000, metavar="N", help="changes kept per resource")
    parser.add_argument("--bookmark-interval", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument(
        "--no-watch-list", action="store_true", help="refuse sendInitialEvents, as old servers do"
    )
    parser.add_argument(
        "--definition-delay",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long the objects of a new or changed definition answer 404, then 429",
    )
    audit = parser.add_argument_group(
        "audit webhook", "audit events of every write are posted here in batches"
    )
    audit.add_argument("--audit-webhook", metavar="URL", help="https://127.0.0.1:9444/audit-webhook")
    audit.add_argument(
        "--audit-ca", type=Path, metavar="FILE", help="the authority of the webhook's certificate"
    )
    audit.add_argument("--audit-client-cert", type=Path, metavar="FILE", help="the certificate to show")
    audit.add_argument("--audit-client-key", type=Path, metavar="FILE", help="its key")
    audit.add_argument("--audit-batch-max-wait", type=float, default=1.0, metavar="SECONDS")
    audit.add_argument("--audit-batch-max-size", type=int, default=400, metavar="N")
    return parser


def _config(arguments: argparse.Namespace) -> SandboxConfig:
    host, _, port = arguments.listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsInvalid([f"--listen {arguments.listen} is not HOST:PORT, for example 127.0.0.1:6443"])
    webhooks: tuple[AuditWebhook, ...] = ()
    if arguments.audit_webhook:
        webhooks = (
            AuditWebhook(
                arguments.audit_webhook,
                ca=arguments.audit_ca,
                client_cert=arguments.audit_client_cert,
                client_key=arguments.audit_client_key,
                max_wait=arguments.audit_batch_max_wait,
                max_size=arguments.audit_batch_max_size,
            ),
        )
    return SandboxConfig(
        host=host.strip("[]"),
        port=int(port),
        tls=not arguments.insecure_http,
        state_dir=arguments.state_dir,
        kubeconfig_out=arguments.kubeconfig_out,
        token_file=arguments.token_file,
        audit_webhooks=webhooks,
        audit_keep=0,
        history_limit=arguments.history,
        bookmark_interval=arguments.bookmark_interval,
        watch_list=not arguments.no_watch_list,
        finish_namespaces=arguments.finish_namespaces,
        definition_delay=arguments.definition_delay,
    )


async def _serve(config: SandboxConfig) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = ApiServer(config)
    await server.start()
    sys.stdout.write(f"ready {server.url}\n")
    sys.stdout.flush()
    await stopped.wait()
    await server.stop()


def main() -> int:
    """Run until a signal; exit code 2 with one line per problem where it cannot start."""
    try:
        asyncio.run(_serve(_config(_parser().parse_args())))
    except (SettingsInvalid, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
