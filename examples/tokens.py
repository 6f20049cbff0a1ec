#!/usr/bin/env python3
"""Text to a file of token ids, for data.path: tokens.py TOKENIZER TEXT OUT [--uint32]

TOKENIZER is the folder of a Hugging Face model. Needs `transformers` and numpy.
"""
import argparse
import sys

import numpy
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--uint32", action="store_true", help="for vocabularies above 65536; set data.format")
    arguments = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.tokenizer)
    largest = numpy.iinfo("<u4" if arguments.uint32 else "<u2").max
    count = 0
    with open(arguments.text, encoding="utf-8") as text, open(arguments.out, "wb") as out:
        for line in text:
            ids = tokenizer(line, add_special_tokens=False)["input_ids"]
            if ids and max(ids) > largest:
                sys.exit(f"tokens.py: token id {max(ids)} needs --uint32")
            numpy.array(ids, dtype="<u4" if arguments.uint32 else "<u2").tofile(out)
            count += len(ids)
    print(f"{arguments.out}: {count} tokens")


if __name__ == "__main__":
    main()
