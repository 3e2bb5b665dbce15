"""A device that pretends to be ``cuda:0``, so that mistakes a GPU would show are seen without one.

Inside ``with pretended_device() as waits:`` tensors can be moved to ``cuda``:

* A tensor there is a `PretendedTensor`: ordinary CPU memory under a class that reports ``cuda:0`` to Python.
  C++ still sees the CPU, so autograd, optimisers and operations compute as they do on the CPU.
* An operation that is given tensors of both devices raises where CUDA would. What the caller passed is seen
  in ``__torch_function__``, which operation comes of it in ``__torch_dispatch__``: C++ makes CPU temporaries
  of its own, and these are no mistake.
* Whatever would make the host wait for a GPU is appended to ``waits``: a value that is read, a mask whose
  length must be known, a blocking copy, a synchronisation.

It shows neither speed nor rounding, and it knows of no second device, no CUDA graph and no compiler. It
relies on private names of torch; when an upgrade moves them, the tests of this file fail first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves, tree_map_only

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")

# Operations whose result or shape the host must know.
READS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "equal", "allclose", "bincount", "histc"),
    *("_unique", "_unique2", "unique_dim", "unique_consecutive", "multinomial", "_linalg_check_errors"),
    *("linalg_eig", "_linalg_eigh", "_linalg_svd", "linalg_lstsq"),
}
INDEXING = {"index", "index_put", "index_put_"}
TAKES_SCALARS = {"fill", "fill_", "masked_fill", "masked_fill_", "where"}  # of the CPU, beside pointwise ones
COPIES_VALUES = {"tensor", "as_tensor", "asarray", "new_tensor"}

# torch's own, before anything is replaced.
_Tensor, _Generator = torch.Tensor, torch.Generator
_tensor_to, _autocast_init = torch.Tensor.to, torch.autocast.__init__
_group_tensors = torch._C._group_tensors_by_device_and_dtype
_run_backward = torch.autograd._engine_run_backward

_calls = threading.local()  # .mixed: whether the call under way was given tensors of both devices


class Wait(NamedTuple):
    """One moment at which the host would have waited for a GPU."""

    kind: str  # read, mask, download, upload or synchronize
    operation: str
    caller: str  # "file:line function" of the innermost frame that is neither torch's nor this file's
    thread: str


class _Ledger:
    """What was noticed, and which memory counts as pinned."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self._pinned: dict[int, torch.Tensor] = {}  # held, so that an address is not given to others

    def note(self, kind: str, operation: str) -> None:
        frame: Any = sys._getframe(1)
        inner = (str(Path(torch.__file__).parent), __file__, "<")
        while frame.f_back and frame.f_code.co_filename.startswith(inner):
            frame = frame.f_back
        caller = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        self.waits.append(Wait(kind, operation, caller, threading.current_thread().name))

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        self._pinned[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._pinned

    def clear(self) -> None:
        self.waits = []
        self._pinned.clear()


_ledger = _Ledger()


class PretendedTensor(torch.Tensor):
    """A tensor with CPU memory that says it is on ``cuda:0``."""

    device = property(lambda self: CUDA)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, outer = dict(kwargs or {}), getattr(_calls, "mixed", False)
        device = kwargs.pop("device", None)  # of zeros_like, new_zeros and the like
        _calls.mixed = any(map(_on_host, tree_leaves((args, kwargs))))
        try:
            out = super().__torch_function__(func, types, args, kwargs)
        finally:
            _calls.mixed = outer
        return out if device is None or _is_cuda(device) else tree_map_only(PretendedTensor, _to_plain, out)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_inference_mode_enabled() and func._can_decompose():
            return func.decompose(*args, **(kwargs or {}))  # into what arrives here outside of that mode
        _check_devices(func, args, kwargs or {})
        _note_waits(func, args, kwargs or {})
        with torch._C._DisableTorchDispatch():
            out = func(*args, **(kwargs or {}))
        if func._schema.name.endswith("_"):
            return out  # in place: what was given, wherever it is
        return tree_map_only(_Tensor, lambda t: _to_pretended(t) if _on_host(t) else t, out)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return _move(self, *args, **kwargs)

    def cpu(self, **kwargs: Any) -> Any:
        return _move(self, CPU, **kwargs)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def record_stream(self, stream: Any) -> None:
        return

    def tolist(self) -> Any:
        _ledger.note("download", "tolist")
        return _to_plain(self).tolist()

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        _ledger.note("download", "repr")
        return f"pretended({_to_plain(self)!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        _ledger.note("download", "pickle")
        return _to_plain(self).__reduce_ex__(protocol)


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _on_host(value: Any) -> bool:
    return isinstance(value, _Tensor) and not isinstance(value, PretendedTensor)


def _to_pretended(plain: torch.Tensor) -> Any:
    return _Tensor._make_subclass(PretendedTensor, plain)


def _to_plain(tensor: torch.Tensor) -> Any:
    """The same memory as an ordinary CPU tensor, without history."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        return _Tensor._make_subclass(_Tensor, tensor.detach())


def _host_tensors(leaves: list[Any]) -> list[torch.Tensor]:
    """Those of the CPU that the caller of the operation under way passed beside tensors of the device."""
    return [leaf for leaf in leaves if _on_host(leaf)] if getattr(_calls, "mixed", False) else []


def _check_devices(func: Any, args: Any, kwargs: Any) -> None:
    """Refuse what CUDA refuses."""
    name, leaves = func.overloadpacket.__name__, tree_leaves((args, kwargs))
    for leaf in leaves:
        if isinstance(leaf, _Generator) and not isinstance(leaf, PretendedGenerator):
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' ({name})")
    host = _host_tensors(leaves)
    if not host or name == "copy_":
        return
    if name in INDEXING and not _on_host(args[0]):  # CUDA takes an index from the CPU, by copying it
        host, takes_scalars = [value for value in args[2:3] if _on_host(value) and value.dim()], False
    else:
        takes_scalars = torch.Tag.pointwise in func.tags or name in TAKES_SCALARS
    if any(tensor.dim() or not takes_scalars for tensor in host):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two, cuda:0 and cpu! ({name})"
        )


def _note_waits(func: Any, args: Any, kwargs: Any) -> None:
    """Note what CUDA would make the host wait for."""
    name = func.overloadpacket.__name__
    if name == "copy_":
        blocking = not (kwargs.get("non_blocking") or args[2:3] == (True,))
        if blocking and _host_tensors(tree_leaves((args, kwargs))):
            _ledger.note("download" if _on_host(args[0]) else "upload", name)
        return
    indices = [index for index in args[1] if index is not None] if name in INDEXING else []
    if any(map(_on_host, indices)) and getattr(_calls, "mixed", False) and not _on_host(args[0]):
        _ledger.note("upload", f"{name} by an index on the CPU")
    masks = [index for index in indices if not _on_host(index) and index.dtype in (torch.bool, torch.uint8)]
    if masks and (name == "index" or args[2].numel() != 1):  # x[mask] = number is a masked_fill
        _ledger.note("mask", name)
    elif name in READS or (name == "repeat_interleave" and kwargs.get("output_size") is None):
        _ledger.note("read", name)


class _Move(torch.autograd.Function):
    """A copy on the other device, through which gradients come back."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        on_device = isinstance(tensor, PretendedTensor)
        return _to_plain(tensor.clone()) if on_device else _to_pretended(tensor.detach().clone())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _move(grad, CPU if isinstance(grad, PretendedTensor) else CUDA)


def _move(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """``Tensor.to`` in all its forms, for tensors of either device."""
    copy, other = kwargs.pop("copy", False), kwargs.pop("other", None)
    if args and isinstance(args[0], _Tensor):
        other, args = args[0], args[1:]
    if other is not None:
        kwargs |= {"device": other.device, "dtype": other.dtype}
    device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
    here = isinstance(tensor, PretendedTensor)
    if device is not None and _is_cuda(device) != here:
        if here and not non_blocking:
            _ledger.note("download", "to")
        elif not here and not (non_blocking and _ledger.is_pinned(tensor)):
            _ledger.note("upload", "to, from pageable memory" if non_blocking else "to")
        tensor, copy = _Move.apply(tensor), False
    return _tensor_to(tensor, dtype or tensor.dtype, copy=copy, memory_format=layout or torch.preserve_format)


class PretendedGenerator(torch.Generator):
    """Random numbers for the pretended device; they are the CPU's, not CUDA's."""

    device = property(lambda self: CUDA)  # type: ignore[assignment]


class _GeneratorClass(type):
    """Stands in for ``torch.Generator``."""

    def __call__(cls, device: Any = "cpu") -> Any:
        return PretendedGenerator() if _is_cuda(device) else _Generator(device)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _Generator)


class _Stream:
    """A stream of the pretended device, where everything has happened already."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = CUDA

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        _ledger.note("synchronize", "stream")

    def wait_stream(self, stream: Any) -> None:
        return

    def wait_event(self, event: Any) -> None:
        return


class _Event:
    """An event on a stream; waiting for it on the host is noted."""

    def __init__(self, **options: Any) -> None:
        return

    def record(self, stream: Any = None) -> None:
        return

    def synchronize(self) -> None:
        _ledger.note("synchronize", "event")


def _factory(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes tensors, on the pretended device and in pretended pinned memory as well."""

    def make(*args: Any, **kwargs: Any) -> Any:
        pin, draw = kwargs.pop("pin_memory", False), kwargs.get("generator")
        given = tree_leaves(args)
        if not _is_cuda(kwargs.get("device")) or any(isinstance(leaf, PretendedTensor) for leaf in given):
            return _ledger.pin(real(*args, **kwargs)) if pin else real(*args, **kwargs)
        if draw is not None and not isinstance(draw, PretendedGenerator):
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if real.__name__ in COPIES_VALUES:
            _ledger.note("upload", real.__name__)
        tracked = kwargs.pop("requires_grad", False)
        return _to_pretended(real(*args, **{**kwargs, "device": CPU}).detach()).requires_grad_(tracked)

    return make


def _pretended_groups(lists: Any, with_indices: bool = False) -> Any:
    """C++ groups tensors by the device that it knows of: say the one that Python is told."""
    grouped = _group_tensors(lists, with_indices)
    return {(members[0][0][0].device, dtype): members for (_, dtype), members in grouped.items()}


def _watched_backward(*args: Any, **kwargs: Any) -> Any:
    with torch._C._EnableTorchFunction():  # which is off here, but is to see what a backward in Python does
        return _run_backward(*args, **kwargs)


def _cpu_autocast(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
    _autocast_init(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)


def _replacements() -> list[tuple[Any, str, Any]]:
    """What torch is told to do instead while the device is pretended: (object, name, value)."""
    makers = {f.__name__ for f in _device_constructors()} | {n for n in dir(torch) if n.endswith("_like")}
    changes = [(torch, name, _factory(getattr(torch, name))) for name in makers if hasattr(torch, name)]
    changes += [
        (_Tensor, name, _factory(getattr(_Tensor, name))) for name in dir(_Tensor) if name.startswith("new_")
    ]
    stream = _Stream()
    return [
        *changes,
        (_Tensor, "to", _move),
        (_Tensor, "cuda", lambda self, device=CUDA, non_blocking=False: _move(self, CUDA, non_blocking)),
        (_Tensor, "pin_memory", lambda self, *args: _ledger.pin(self.clone())),
        (_Tensor, "is_pinned", lambda self, *args: _ledger.is_pinned(self)),
        (torch, "Generator", _GeneratorClass("Generator", (), {})),
        (torch.autocast, "__init__", _cpu_autocast),
        (torch.autograd, "_engine_run_backward", _watched_backward),
        (torch._C, "_group_tensors_by_device_and_dtype", _pretended_groups),
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "get_device_name", lambda *args: "pretended"),
        (torch.cuda, "Stream", _Stream),
        (torch.cuda, "Event", _Event),
        (torch.cuda, "stream", lambda stream: nullcontext()),
        (torch.cuda, "current_stream", lambda *args: stream),
        (torch.cuda, "is_current_stream_capturing", lambda: False),
        (torch.accelerator, "current_stream", lambda *args: stream),
        (torch.cuda, "synchronize", lambda *args: _ledger.note("synchronize", "device")),
    ]


@contextmanager
def pretended_device() -> Iterator[list[Wait]]:
    """Make ``cuda`` usable in all threads; gives the list of waits, which grows."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    _ledger.clear()
    with ExitStack() as stack:
        for owner, name, value in _replacements():
            stack.enter_context(patch.object(owner, name, value))
        # `Module.to` has to change the class of parameters; they stay the same objects, as with CUDA.
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, before)
        torch.__future__.set_swap_module_params_on_conversion(True)
        stack.callback(_ledger.clear)
        yield _ledger.waits
