"""Copying a directory with everything in it into one that is new."""

from __future__ import annotations

import os

from interpreter.models.files import FileType
from interpreter.workspace import beneath, paths
from interpreter.workspace.allowance import Budget
from interpreter.workspace.incoming import Owner, copy_some
from interpreter.workspace.walk import open_file, walk

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_tree(source: int, root: int, hidden: str, owner: Owner, budget: Budget) -> None:
    """Copies files, directories and links into the directory `hidden`, which is empty."""
    target = beneath.find(root, hidden, follow_last=False, links=False, directory=True)
    try:
        for found in walk(source):
            directory, name = paths.split(found.path)
            parent = beneath.find(target, directory, follow_last=False, links=False, directory=True)
            try:
                match found.type:
                    case FileType.directory:
                        owner.make_directory(parent, name)
                    case FileType.link:
                        _copy_link(source, found.path, parent, name, owner)
                    case FileType.file:
                        _copy_file(source, found.path, parent, name, owner, budget)
            finally:
                os.close(parent)
    finally:
        os.close(target)


def _copy_link(source: int, path: str, parent: int, name: str, owner: Owner) -> None:
    link = beneath.find(source, path, follow_last=False, links=False)
    try:
        os.symlink(os.readlink("", dir_fd=link), name, dir_fd=parent)
    finally:
        os.close(link)
    owner.take_named(name, parent)


def _copy_file(source: int, path: str, parent: int, name: str, owner: Owner, budget: Budget) -> None:
    read = open_file(source, path)
    size = 0
    try:
        write = os.open(name, _NEW, 0o600, dir_fd=parent)
        try:
            owner.take(write, 0o755 if os.fstat(read).st_mode & 0o100 else 0o644)
            while copied := copy_some(read, write, size):
                size += copied
                budget.arrivals.take(copied, seen=True)
                budget.check(size)
        finally:
            os.close(write)
    finally:
        os.close(read)
