"""Where a backup lies: a folder, or a bucket of a store that speaks S3.

    /mnt/backups/prod                      a folder, made when it is missing
    s3://bucket/prod                       Amazon's, with keys from where its own tools have them
    s3://bucket/prod?endpoint=http://127.0.0.1:9000     another store that speaks S3

A place keeps named bytes. `write` returns when they are durable; `replace` does so only when nobody
else has replaced the same name since it was read, so two commands never mix their manifests.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from cluster.backup.errors import BackupBusy, BackupError, PlaceFailed
from cluster.extras import missing_extra
from commitlog.files.system import OS_FILES, FileSystem


class Place(Protocol):
    """Named bytes; a name has "/" between folders."""

    def read(self, name: str) -> bytes:
        """All bytes of `name`. Raises FileNotFoundError, OSError, BackupError."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Keep `data` as `name`, durably, instead of older bytes. Raises OSError, BackupError."""
        ...

    def replace(self, name: str, data: bytes, before: bytes | None) -> None:
        """Write `name` if it holds `before` (None: it is not there). Raises BackupBusy, OSError."""
        ...

    def folders(self) -> list[str]:
        """Sorted names of the folders at the top. Raises OSError, BackupError."""
        ...


class FolderPlace:
    """A folder of this machine, or one that is mounted there."""

    def __init__(self, root: Path, files: FileSystem = OS_FILES) -> None:
        self._root, self._files = root, files

    def __str__(self) -> str:
        return str(self._root)

    def read(self, name: str) -> bytes:
        """See `Place`."""
        return self._files.read(self._root / name)

    def write(self, name: str, data: bytes) -> None:
        """See `Place`."""
        path = self._root / name
        self._files.make_dirs(path.parent)
        self._files.write_atomic(path, data, staging=path.parent)

    def replace(self, name: str, data: bytes, before: bytes | None) -> None:
        """See `Place`."""
        path = self._root / name
        self._files.make_dirs(path.parent)
        try:
            lock = self._files.lock(path.with_name("lock"))
        except BlockingIOError:
            raise BackupBusy(f"another command writes to {path.parent}") from None
        try:
            found = self._files.read(path) if self._files.exists(path) else None
            if found != before:
                raise BackupBusy(f"another command has changed {path}")
            self.write(name, data)
        finally:
            lock.release()

    def folders(self) -> list[str]:
        """See `Place`."""
        if not self._files.exists(self._root):
            return []
        return [
            name for name in self._files.list(self._root) if self._files.is_dir(self._root / name)
        ]


class BucketPlace:
    """Objects of a bucket, below a prefix, by boto3."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self._tags: dict[str, str] = {}  # name → what the store calls the version that was read

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def read(self, name: str) -> bytes:
        """See `Place`."""
        found = self._ask("get_object", name)
        self._tags[name] = found["ETag"]
        return bytes(found["Body"].read())

    def write(self, name: str, data: bytes) -> None:
        """See `Place`."""
        self._put(name, data)

    def replace(self, name: str, data: bytes, before: bytes | None) -> None:
        """See `Place`."""
        if before is None:
            self._put(name, data, IfNoneMatch="*")
        else:
            if self.read(name) != before:
                raise BackupBusy(f"another command has changed {self}/{name}")
            self._put(name, data, IfMatch=self._tags[name])

    def folders(self) -> list[str]:
        """See `Place`."""
        start = f"{self._prefix}/" if self._prefix else ""
        found = self._call(
            "list_objects_v2", Bucket=self._bucket, Prefix=start, Delimiter="/", MaxKeys=1000
        )
        rows = found.get("CommonPrefixes", ())
        return sorted(row["Prefix"].removeprefix(start).rstrip("/") for row in rows)

    def _put(self, name: str, data: bytes, **condition: str) -> None:
        checksum = b64encode(hashlib.sha256(data).digest()).decode()
        self._ask("put_object", name, Body=data, ChecksumSHA256=checksum, **condition)

    def _ask(self, action: str, name: str, **rest: Any) -> Any:
        key = f"{self._prefix}/{name}" if self._prefix else name
        return self._call(action, Bucket=self._bucket, Key=key, **rest)

    def _call(self, action: str, **rest: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        where = f"{self._bucket}/{rest.get('Key', rest.get('Prefix', ''))}"
        try:
            return getattr(self._client, action)(**rest)
        except ClientError as error:
            code = str(error.response["Error"].get("Code", ""))
            if code in ("NoSuchKey", "404"):
                raise FileNotFoundError(f"s3://{where} is not there") from None
            if code in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409"):
                raise BackupBusy(f"another command has changed s3://{where}") from None
            raise PlaceFailed(
                f"the store refuses s3://{where}: {error}; check the keys and the bucket's rights"
            ) from error
        except BotoCoreError as error:
            raise PlaceFailed(
                f"s3://{where} cannot be asked for: {error}; check the endpoint and the keys"
            ) from error


def place_of(text: str) -> Place:
    """The place that a path or URL names; it is not looked at yet.

    Raises BackupError for a URL of another kind, MissingExtra without boto3.
    """
    if "://" not in text:
        return FolderPlace(Path(text))
    url = urlsplit(text)
    if url.scheme != "s3" or not url.netloc:
        raise BackupError(
            f"{text.partition('?')[0]} is no place; give a folder, or s3://BUCKET/PREFIX"
        )
    options = parse_qs(url.query)
    strange = sorted(set(options) - {"endpoint", "region"})
    if strange:
        raise BackupError(f"{strange[0]} is no option of a place; give endpoint, region, or none")
    try:
        import boto3
    except ImportError as error:
        raise missing_extra(error) from None
    chosen = {name: values[-1] for name, values in options.items()}
    client = boto3.client(
        "s3",
        endpoint_url=chosen.get("endpoint"),
        region_name=chosen.get("region") or os.environ.get("AWS_REGION") or "us-east-1",
    )
    return BucketPlace(client, url.netloc, url.path.strip("/"))
