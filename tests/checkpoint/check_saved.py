#!/usr/bin/env python3
"""Checks a checkpoint that Tandem saved: transformers loads it unchanged and has the weights of the original.

    python check_saved.py SAVED ORIGINAL     # exit 0: equal; 1: not; 77: torch or transformers is missing

Also used for a model made from nothing: without ORIGINAL it only loads, generates one token and loads the tokenizer.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def fail(why: str) -> None:
    print(why)
    sys.exit(1)


def load(path: str) -> torch.nn.Module:
    model, info = AutoModelForCausalLM.from_pretrained(path, dtype="auto", output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            fail(f"{path}: {problem}: {info[problem]}")
    return model


def main() -> None:
    torch.set_num_threads(1)
    saved = load(sys.argv[1])
    if saved.dtype != torch.float32:
        fail(f"the saved dtype is {saved.dtype}")
    if len(sys.argv) > 2:
        original = load(sys.argv[2]).float()
        left, right = saved.state_dict(), original.state_dict()
        if left.keys() != right.keys():
            fail(f"other parameters: {left.keys() ^ right.keys()}")
        for name, value in left.items():
            if not torch.equal(value, right[name]):
                fail(f"{name} differs")
    saved.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=1, do_sample=False)
    if (Path(sys.argv[1]) / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], local_files_only=True)
        text = "12+34=46 \u00e9\u4f60\U0001f600<|im_end|>"
        if tokenizer.decode(tokenizer(text)["input_ids"]) != text:
            fail("the tokenizer does not give the text back")
    print("equal")


if __name__ == "__main__":
    main()
