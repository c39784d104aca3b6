"""What a suggestion says, in sentences. No number comes without its interval and its count."""

from collections.abc import Iterator

from outcomes.backtests.texts import KIND_TEXTS
from outcomes.suggestions.results import Suggestion


def verdict_sentence(suggestion: Suggestion) -> str:
    """Whether weights that outcomes suggest predict better than the present ones."""
    if suggestion.outcomes < suggestion.needed:
        return f"Too few outcomes: {suggestion.outcomes:,} of {suggestion.needed:,} needed."
    if suggestion.judgement is None:
        return "Too few outcomes of one sort to learn from and to judge by."
    if suggestion.judgement.has_gain:
        predicted = KIND_TEXTS[suggestion.kind].predicted
        return f"Suggested weights predicted {predicted} better than the present ones."
    return "No gain can be shown."


def sentences(suggestion: Suggestion) -> Iterator[str]:
    """The figures behind the verdict, and what the weights follow from."""
    judgement = suggestion.judgement
    if judgement and (gain := judgement.gain):
        changed = "The gain in AUC is" if judgement.has_gain else "The AUC changed by"
        yield (
            f"{changed} {gain.number} ({gain.number_range}), judged on "
            f"{gain.outcomes:,} outcomes, each predicted {suggestion.horizon_days} days before by "
            "weights that only outcomes known until then suggested."
        )
    if judgement and (own := judgement.auc) and (present := judgement.present_auc):
        yield (
            f"The AUC is {own.number} ({own.number_range}) with suggested weights and "
            f"{present.number} ({present.number_range}) with the present ones. Chance gives 0.50."
        )
    texts = KIND_TEXTS[suggestion.kind]
    good = suggestion.outcomes - suggestion.bad
    sample = f", an even sample of {suggestion.sampled_of:,}" if suggestion.sampled_of else ""
    learned = "The weights below follow from" if suggestion.suggested else "There are"
    yield (
        f"{learned} {suggestion.outcomes:,} outcomes{sample}: {good:,} {texts.good}, and "
        f"{suggestion.bad:,} {texts.bad_again}."
    )


def drift_sentence(suggestion: Suggestion) -> str:
    """Whether outcomes of late follow from something else than those before them."""
    aucs = [part.auc for part in suggestion.judgement.parts] if suggestion.judgement else []
    before = [auc.low for auc in aucs[:-1] if auc]
    text = "Each part was predicted by what the outcomes known before it suggested."
    if not before or (last := aucs[-1]) is None:
        return text
    if last.high < min(before):
        return (
            f"Outcomes follow from something else than before: the AUC of the last part is "
            f"{last.number} ({last.number_range}; {last.outcomes:,} outcomes), and its interval "
            "is below those of all parts before it."
        )
    return (
        f"{text} No change can be shown: the interval of the last part is not below those of all "
        "parts before it."
    )
