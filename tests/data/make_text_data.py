#!/usr/bin/env python3
"""Makes tests/data/text: what the tokenizers library gives for tokenizers of Tandem's kinds.

    python make_text_data.py tests/data/text [MODEL]     # needs tokenizers and transformers

    digits/, plain/     small byte-level BPE tokenizers trained here: with Digits (SmolLM2's pipeline, its chat template, merges
                        as pairs, a vocabulary that lacks some bytes), and without (GPT-2's, merges as strings)
    digits.json, ...    their reference values: snippets, random decodes, chats
    byte.json           those of the tokenizer of `tandem model init`; MODEL is a directory that it made with --chat
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tokenizers.decoders import DecodeStream
from transformers import AutoTokenizer

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and then the other dog sleeps.",
    "What is 12 + 34? The answer is 46. It's what they'd say, isn't it? We've 3 more; I'll go, you're late, I'm not.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n\tprint(i)\n",
    "Gr\u00fc\u00dfe aus K\u00f6ln! \u4f60\u597d\uff0c\u4e16\u754c\u3002 \u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439",
]
TEXTS = [
    "", " ", "  ", "   a", "a   ", "\n", " \n ", "\r\n\r\n x", "\t\ttabs", "a\u00a0b\u2003c\u3000d", "\u2028\u2029\x85",
    "Hello, world!", "it's 'S 're're ''' 'tis \u2019s", " don't  can't", "12+34=46", "3.14159 1,000,000", "a1b22c333",
    "\u00b2\u00bd\u2167\u2460 \u0663\u0664 \u096b", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family",
    "\U0001f44b\U0001f3fd \U0001f1e9\U0001f1ea", "e\u0301 \u00e9 n\u0303", "Z\u0351\u0349\u0352algo", "\u4f60\u597d\uff0c\u4e16\u754c",
    "\u3053\u3093\u306b\u3061\u306f", "\uc548\ub155", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd", "\ufffd", "a\ufffd b", "\ufffd\ufffd",
    "\x00\x01\x04\x7f", "\U00040000", "\ufeffbom", "\u200b\u2060", "\U0010ffff", "\U0002ebf0\u1c89\U00010d40 \U00011de0",
    "<|im_start|>user\nhi<|im_end|>", "x<|im_end|><|im_end|>y", "<|im_start", "<|im_start|", "<|im_start|><|endoftext|", "<|extra|>",
    "<<|im_end|>>", "for i in range(10):\n    print(i)\n\n\n\treturn", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the the  the   the",
]  # fmt: skip
CHATS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "2+2?"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": " c \n"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
    [{"role": "user", "content": "Ignore <|im_end|> {{ 1 + 1 }} \\n \U0001f600"}],
    [{"role": "user", "content": "a"}, {"role": "system", "content": "late"}],
]
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train(digits: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]) if digits else byte_level
    )
    if not digits:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    # One added token that is not special, and one that is found only after the others.
    tokenizer.add_tokens([AddedToken("<|extra|>", normalized=False), AddedToken("<tool>", normalized=True)])
    return tokenizer


def save(tokenizer: Tokenizer, out: Path, digits: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    raw = json.loads(tokenizer.to_str())
    model = raw["model"]
    if digits:  # a vocabulary without some bytes, as SmolLM2's: 0x04 and 0xF1 vanish
        for symbol in ("\u0104", "\u00f1"):
            del model["vocab"][symbol]
        model["merges"] = [merge for merge in model["merges"] if not {"\u0104", "\u00f1"} & set("".join(merge))]
        tokens = sorted(model["vocab"], key=model["vocab"].get)
        model["vocab"] = {token: i for i, token in enumerate(tokens)}
        for added in raw["added_tokens"]:
            added["id"] -= 2 if added["content"] not in SPECIALS else 0
    else:
        model["merges"] = [" ".join(merge) for merge in model["merges"]]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              "bos_token": "<|im_start|>", "eos_token": "<|im_end|>" if digits else {"__type": "AddedToken", "content": "<|endoftext|>"},
              "pad_token": "<|im_end|>" if digits else None}  # fmt: skip
    (out / "tokenizer.json").write_text(json.dumps(raw, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    if digits:
        (out / "chat_template.jinja").write_text(SMOLLM2 + "\n", encoding="utf-8")


def stream(tokenizer: Tokenizer, ids: list[int], skip: bool) -> list[str | None]:
    decoder = DecodeStream(skip_special_tokens=skip)
    return [decoder.step(tokenizer, i) for i in ids]


def reference(directory: Path) -> dict:
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    auto = AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    generator = random.Random(5)
    snippets, decodes, chats = [], [], []
    pool = "".join(TEXTS) + "".join(chr(generator.randrange(0x20, 0xD800)) for _ in range(300))
    mixed = ["".join(generator.choice(pool) for _ in range(generator.randrange(1, 30))) for _ in range(60)]
    for text in TEXTS + CORPUS + mixed:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        special = tokenizer.encode(text, add_special_tokens=True).ids
        assert auto(text)["input_ids"] == special, text
        snippets.append({"text": text, "ids": ids, "ids_special": special,
                         "decoded": tokenizer.decode(special, skip_special_tokens=False),
                         "decoded_skip": tokenizer.decode(special, skip_special_tokens=True),
                         "stream": stream(tokenizer, special, False),
                         "stream_skip": stream(tokenizer, special, True)})  # fmt: skip
    for _ in range(60):
        ids = [generator.randrange(tokenizer.get_vocab_size()) for _ in range(generator.randint(1, 12))]
        decodes.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                        "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True),
                        "stream": stream(tokenizer, ids, False), "stream_skip": stream(tokenizer, ids, True)})  # fmt: skip
    for messages in CHATS if auto.chat_template is not None else []:
        for prompt in (False, True):
            text = auto.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
            chats.append({"messages": messages, "add_generation_prompt": prompt, "text": text,
                          "ids": tokenizer.encode(text, add_special_tokens=False).ids})  # fmt: skip
    highest = max(tokenizer.get_vocab().values())
    return {"vocab_size": highest + 1, "snippets": snippets, "random_decodes": decodes, "chats": chats}


def main() -> None:
    root = Path(sys.argv[1])
    cases = {}
    for name, digits in (("digits", True), ("plain", False)):
        save(train(digits), root / name, digits)
        cases[name] = root / name
    if len(sys.argv) > 2:
        cases["byte"] = Path(sys.argv[2])
    for name, directory in cases.items():
        text = json.dumps(reference(directory), separators=(",", ":"))
        (root / f"{name}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
