"""Everything that code in a sandbox might do to change what it may only read."""

from __future__ import annotations

CHANGES = """
import ctypes, errno, os, shutil
top, file = '/data/input', '/data/input/numbers/sub/b.csv'
def reopened():
    fd = os.open(file, os.O_RDONLY)
    os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
def mapped():
    import mmap
    fd = os.open(file, os.O_RDONLY)
    mmap.mmap(fd, 1, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_SHARED)
def remounted():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(None, b'/data/input', None, 32 | 4096, None) != 0:
        raise OSError(ctypes.get_errno(), 'mount')
attempts = {
    'write': lambda: open(file, 'w'),
    'append': lambda: open(file, 'ab'),
    'open for both': lambda: os.open(file, os.O_RDWR),
    'truncate': lambda: os.truncate(file, 0),
    'chmod': lambda: os.chmod(file, 0o666),
    'chmod of the folder': lambda: os.chmod(top, 0o777),
    'chown': lambda: os.chown(file, os.getuid(), os.getgid()),
    'utime': lambda: os.utime(file),
    'unlink': lambda: os.unlink(file),
    'rename': lambda: os.rename(file, top + '/renamed'),
    'rename out': lambda: os.rename(file, '/workspace/moved'),
    'rename of a dataset': lambda: os.rename(top + '/numbers', top + '/others'),
    'hard link out': lambda: os.link(file, '/workspace/linked'),
    'hard link to tmp': lambda: os.link(file, '/tmp/linked'),
    'hard link in': lambda: (open('/workspace/mine', 'w').close(), os.link('/workspace/mine', top + '/mine')),
    'symlink': lambda: os.symlink('/workspace', top + '/link'),
    'mkdir': lambda: os.mkdir(top + '/made'),
    'rmdir': lambda: os.rmdir(top + '/numbers'),
    'new file': lambda: open(top + '/new', 'x'),
    'new file in a dataset': lambda: open(top + '/numbers/new', 'x'),
    'extended attribute': lambda: os.setxattr(file, 'user.x', b'1'),
    'reopened through proc': reopened,
    'mapped': mapped,
    'remounted': remounted,
}
managed = []
for name, attempt in attempts.items():
    try:
        attempt()
        managed.append(name)
    except OSError:
        pass
managed
"""
"""Needs the dataset `numbers` with the file `sub/b.csv`; its value is what could be done after all."""
