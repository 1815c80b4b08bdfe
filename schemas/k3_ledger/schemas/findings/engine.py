"""Rows of the registry: models, parity and runs."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- model -----------------------------------------------------------------------------------------------
    "GGUF_MAGIC": CodeInfo(
        Area.MODEL, E, "not a GGUF file",
        "The file does not begin with the GGUF magic.",
        "point the command at a .gguf file", ExitCode.UNREADABLE,
    ),
    "GGUF_BYTE_ORDER": CodeInfo(
        Area.MODEL, E, "big-endian GGUF file",
        "The header is written in big-endian byte order, which this reader does not take.",
        "convert the file to little-endian", ExitCode.UNREADABLE,
    ),
    "GGUF_VERSION": CodeInfo(
        Area.MODEL, E, "unsupported GGUF version",
        "The container's version is not one this reader knows.",
        "use a file of GGUF version 2 or 3", ExitCode.UNREADABLE,
    ),
    "GGUF_LENGTH": CodeInfo(
        Area.MODEL, E, "length passes the end of the file",
        "A count or a length in the header asks for more bytes than the file has, or than a header may have.",
        "the file is cut short or hostile: fetch it again", ExitCode.UNREADABLE,
    ),
    "GGUF_ALIGNMENT": CodeInfo(
        Area.MODEL, E, "bad alignment",
        "general.alignment is not a power of two between 8 and 1 MiB, or a tensor does not start on it.",
        "write the file again", ExitCode.UNREADABLE,
    ),
    "GGUF_DUPLICATE": CodeInfo(
        Area.MODEL, E, "name used twice",
        "A key or a tensor name appears twice, so two readers could load two different models from one file.",
        "write the file again with each name once", ExitCode.UNREADABLE,
    ),
    "GGUF_VALUE": CodeInfo(
        Area.MODEL, E, "malformed header value",
        "A header value has an unknown type, is not UTF-8, is a boolean other than 0 or 1, or nests arrays.",
        "write the file again", ExitCode.UNREADABLE,
    ),
    "GGUF_TENSOR": CodeInfo(
        Area.MODEL, E, "malformed tensor description",
        "A tensor's shape, place or size contradicts its storage type or its neighbours.",
        "write the file again", ExitCode.UNREADABLE,
    ),
    "GGUF_QUANTISATION": CodeInfo(
        Area.MODEL, E, "unsupported quantisation",
        "A tensor is stored in a type this engine does not read.",
        "use F32, F16, BF16, Q8_0, MXFP4 or IQ1_S",
    ),
    "GGUF_SHARDS": CodeInfo(
        Area.MODEL, E, "shards incomplete or contradictory",
        "A split file's parts are missing, appear twice or disagree on their number, their tensors or a key.",
        "fetch every part of the same split again",
    ),
    "MODEL_ARCHITECTURE": CodeInfo(
        Area.MODEL, E, "other architecture",
        "The file's architecture is not kimi-k3.",
        "only K3-shaped models are run by this engine",
    ),
    "MODEL_KEY_MISSING": CodeInfo(
        Area.MODEL, E, "required key missing",
        "The header lacks a key without which the forward pass would be guessed.",
        "write the file again with the key, or name it with --allow-missing where that is offered",
    ),
    "MODEL_KEY_VALUE": CodeInfo(
        Area.MODEL, E, "unusable key value",
        "A header key has a value of the wrong type or out of range, or two keys contradict one another.",
        "write the file again",
    ),
    "MODEL_TENSOR_MISSING": CodeInfo(
        Area.MODEL, E, "tensor missing",
        "A tensor of the architecture is not in the file. Some loaders skip it in silence and compute something else.",
        "write the file again with the tensor, or name it with --allow-missing where that is offered",
    ),
    "MODEL_TENSOR_SHAPE": CodeInfo(
        Area.MODEL, E, "tensor has another shape",
        "A tensor's shape is not what the header's sizes ask for, or its storage type cannot hold its role.",
        "write the file again",
    ),
    "MODEL_TENSOR_UNKNOWN": CodeInfo(
        Area.MODEL, E, "tensor without a role",
        "The file holds a tensor that the architecture does not use, so part of the weights would be ignored.",
        "remove it, or name it with --allow-unknown",
    ),
    "MODEL_WEIGHT_VALUE": CodeInfo(
        Area.MODEL, E, "weight is not a number",
        "A stored weight or a block's scale decodes to NaN or infinity.",
        "fetch or write the file again",
    ),
    "MODEL_LOGIT_VALUE": CodeInfo(
        Area.MODEL, E, "logit is not a number",
        "The weights are finite and what the model makes of them is not: products or sums overflow the type that is "
        "computed in, so no token follows from them.",
        "use a model whose weights fit its sizes, or a wider type of activations (--dtype float32)",
    ),
    "MODEL_DOES_NOT_FIT": CodeInfo(
        Area.MODEL, E, "model does not fit",
        "Weights, cache, state and buffers together need more memory than the node has.",
        "take fewer layers, a smaller context, another quantisation or more memory",
    ),
    "TOKENIZER_UNSUPPORTED": CodeInfo(
        Area.MODEL, E, "unsupported tokenizer",
        "The file's tokenizer is of another kind, or lacks tokens, merges or special ids.",
        "use a file that carries a kimi-k2 byte-level BPE vocabulary",
    ),
    # -- parity ----------------------------------------------------------------------------------------------
    "PARITY_PROMPTS_DIFFER": CodeInfo(
        Area.PARITY, E, "different prompts",
        "The two engines were not given the same token ids, so their logits say nothing about one another.",
        "send token ids, not text, and compare their digests first",
    ),
    "PARITY_TRUNCATED": CodeInfo(
        Area.PARITY, E, "truncated logits",
        "A row does not hold one value for every token of the vocabulary, or one value stands for many tokens that the "
        "other side tells apart, or for no probability; missing ids are not zeros, and no other number either.",
        "ask the engine for the full vocabulary",
    ),
    "PARITY_PROCESSED": CodeInfo(
        Area.PARITY, E, "processed logits",
        "One side's logits went through a temperature, a penalty or a filter before they were recorded.",
        "record raw logits on both sides",
    ),
    "PARITY_NOT_FINITE": CodeInfo(
        Area.PARITY, E, "logits are not finite",
        "A logit is NaN or infinite. Two engines that both give NaN do not agree.",
        "see the position in the message",
    ),
    "PARITY_OVER_BOUND": CodeInfo(
        Area.PARITY, E, "parity bound exceeded",
        "At one depth the two engines differ by more than the stated bound.",
        "the forward pass is wrong, or the bound is for another storage type",
    ),
    "PARITY_PERFECT_ZERO": CodeInfo(
        Area.PARITY, W, "suspiciously perfect agreement",
        "Every value agrees to the last bit, which two independent engines never do.",
        "make sure that the reference is not a copy of the candidate's own output",
    ),
    "PARITY_SELF_GRADED": CodeInfo(
        Area.PARITY, N, "self-graded parity",
        "The reference is this project's own code: useful while developing, worth nothing as evidence.",
        "grade against llama.cpp for a record that can count",
    ),
    "PARITY_REFERENCE_FAILED": CodeInfo(
        Area.PARITY, E, "reference ended or gave no answer",
        "llama.cpp, which runs in a process of its own, ended, took too long or said something else than a row.",
        "it needs layers of both kinds (KDA and MLA), memory for the whole model, and a file that nobody changes; "
        "against our own float64 (`model parity --own`, `run --own-reference`) it is not needed, and no tier is earned",
        ExitCode.NOT_CHECKED,
    ),
    "PARITY_ALL_TIES": CodeInfo(
        Area.PARITY, W, "every row is a tie",
        "In every graded row the largest value is held by two tokens or more, so that top-1 is the tie rule's and not "
        "the engine's.",
        "look at the rows: a flat one comes from an engine that did no work",
    ),
    "PARITY_FLAT": CodeInfo(
        Area.PARITY, E, "a row that says nothing",
        "The candidate gave every token of the vocabulary the same value where the reference did not.",
        "do the work before answering",
    ),
    # -- run -------------------------------------------------------------------------------------------------
    "RUN_ENGINE_FAILED": CodeInfo(
        Area.RUN, E, "engine ended or refused",
        "The engine process could not be started, ended, or answered a request with an error.",
        "the bundle keeps the end of its standard error",
    ),
    "RUN_PROTOCOL": CodeInfo(
        Area.RUN, E, "engine broke the protocol",
        "The engine's answer is not one JSON object with the fields that the request asks for.",
        "see docs/measurement.md for the protocol",
    ),
    "RUN_TIMEOUT": CodeInfo(
        Area.RUN, E, "engine gave no answer in time",
        "A request was not answered within the time that the run allows.",
        "raise --timeout, or find out what the engine waits for",
    ),
    "RUN_FLAG": CodeInfo(
        Area.RUN, E, "flag cannot be resolved",
        "A flag does not exist, or does not take the value it was given.",
        "`k3-ledger run --help` lists the flags",
        ExitCode.USAGE,
    ),
    "RUN_SELF_REPORT": CodeInfo(
        Area.RUN, E, "engine's own time contradicts the clock",
        "The time that the engine reports for a request does not lie just inside what the controller's "
        "clock saw.",
        "report the time of the work itself, on a monotonic clock",
    ),
    "RUN_MARGINAL": CodeInfo(
        Area.RUN, E, "extra tokens cost something else",
        "The longer run does not take longer by what the engine says the extra tokens cost: work was "
        "skipped, repeated or hidden.",
        "look at the raw times in the bundle",
    ),
    "RUN_MARGIN": CodeInfo(
        Area.RUN, E, "signal does not stand out from jitter",
        "The extra tokens take too little time, compared with the spread of repetitions, to bound a "
        "claim.",
        "measure on a quieter machine or with more tokens",
    ),
    "RUN_SHORT_MARGIN": CodeInfo(
        Area.RUN, W, "not scorable: margin",
        "The extra tokens are worth fewer times the jitter than a rule asks for, and there was no time or room for "
        "more: the run is sound, and a rule that asks for that many gives it no tier.",
        "use a quieter machine, --longest for more time, or a longer --context",
    ),
    "RUN_OWN_TIME_RAISED": CodeInfo(
        Area.RUN, W, "own time taken as the clock's less 1 %",
        "The engine's own times lie further under the controller's clock than counts, because of the pipe, a busy "
        "machine, or a claim that is too good. The receipt holds the clock's less 1 % in their place; what the engine "
        "said is in `observations.json`.",
        "use a quieter machine or a longer --context, so that the pipe is a smaller part of what is timed",
    ),
    "RUN_UNTIED": CodeInfo(
        Area.RUN, W, "not scorable: outputs",
        "In half of the rounds or more, timed outputs are further from the reference's than the engine's own parity "
        "record, or the ceiling, lets them be, and the engine does not answer otherwise when it is asked for the same "
        "again. Nothing ties the speed to an answer. The receipt holds the controller's clock alone, so that no rule "
        "scores it; what the engine said is in `observations.json`.",
        "look at KL and top-1 in the parity record; measure a path, or a file, that is nearer to the reference",
    ),
    "RUN_LEFT_OVER": CodeInfo(
        Area.RUN, E, "work went on after the answer",
        "The engine answered before its work was done: the request behind it began by finishing it.",
        "wait for the device before answering",
    ),
    "RUN_OUTPUT": CodeInfo(
        Area.RUN, E, "timed run put out something wrong",
        "A timed run put out another number of tokens or ids that do not exist, or tokens that the reference would not "
        "have chosen, and the engine, asked for rows of logits behind the same ids, gives other ones than it put out.",
        "the answer that is timed must be the answer",
    ),
    "RUN_FOREIGN_FILE": CodeInfo(
        Area.RUN, E, "result file cannot be taken",
        "Another tool's result file is not of the shape that is known, contradicts itself, or leaves open "
        "what it counts.",
        "write it again with the tool's JSON output, or say with an option what it does not hold",
        ExitCode.UNREADABLE,
    ),
    "RUN_DEGENERATE": CodeInfo(
        Area.RUN, E, "answers cannot tell work from none",
        "Nearly every token of the timed runs is the same one, or the reference gives behind a prompt what it gives "
        "behind its last token alone or behind another one: an engine that does nothing would have passed.",
        "use a model whose answers depend on its input",
    ),
    "RUN_INTERPRETED": CodeInfo(
        Area.RUN, E, "kernels were interpreted",
        "By the engine's own account its kernels ran in an interpreter on the CPU, which rounds otherwise than "
        "compiled ones do and whose speed says nothing.",
        "run compiled kernels, or none: backend naive",
    ),
    "RUN_MODEL_CHANGED": CodeInfo(
        Area.RUN, E, "model file changed during the run",
        "The model file was written to or replaced between the digest that is recorded and the end of the run.",
        "measure again with the file out of the engine's reach",
    ),
    "RUN_NO_QUOTE": CodeInfo(
        Area.RUN, W, "no quote from the machine",
        "The machine has a trusted security module and gave no quote that could be used. The receipt says that it is "
        "not attested.",
        "look at the guest's quote generation service, and measure again if the receipt has to be attested",
    ),
    "RUN_INPUTS_REPEATED": CodeInfo(
        Area.RUN, E, "an input was timed twice",
        "Two timed requests had the same prompt, so the second could have been answered from memory.",
        "use a vocabulary or prompt long enough for fresh prompts",
    ),
    "RUN_MACHINE_UNKNOWN": CodeInfo(
        Area.RUN, W, "state of the machine not known",
        "A tool that describes the machine's accelerators hangs, cannot be executed or fails. What it would have said "
        "is not known, and the bundle says so; the run stands.",
        "mend the driver or its tool, and measure again if the receipt has to say it",
    ),
    "RUN_KEPT_ELSEWHERE": CodeInfo(
        Area.RUN, W, "bundle kept elsewhere",
        "The folder that was asked for was moved, filled, taken or shut during the run, so the bundle was put into "
        "another one, which is named.",
        "move the folder to where it belongs, whole; `seal` takes it from anywhere", ExitCode.UNREADABLE,
    ),
    "RUN_ONE_EXPERT": CodeInfo(
        Area.RUN, W, "one expert takes nearly all tokens",
        "By the engine's own count one expert of a layer took nearly every token, although the router has others to "
        "choose from. The speed of such a model is not that of one whose tokens spread evenly.",
        "use weights whose router spreads tokens evenly, as those of `k3-ledger model synth` do",
    ),
}
# fmt: on
