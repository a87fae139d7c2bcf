"""Promises: every sentence of the pages about what is sent, asked, kept or known.

They are here and nowhere else, so that `tests/client/test_promises.py` can hold each of them
against the requests that were really made. A page shows one by its key.
"""

from __future__ import annotations

from markupsafe import Markup

PROMISES = {
    # every page
    "footer": "This page comes from your own machine. It speaks to nobody but the server you "
    "chose: it fetches the model published there for everybody, without saying who asks; it sends "
    "what you release; after a release it asks for the list made from that; it adds to a common "
    "model where you take part in one; and it has the server show or delete what it holds of you "
    "when you say so.",
    # start, sources, history
    "start": "Nothing of your history leaves this device before you send a release or take part in "
    "a common model.",
    "no server": "No server is chosen, so nothing can be sent. Everything else works.",
    "sources": "Files and browsers are read on this device; reading them sends nothing.",
    "extension": "A browser is paired by a code that you see here and enter there. It then tells "
    "this program, and nobody else, of films and series on the sites you allowed in it: title, "
    "year, kind, season and number, its numbers in catalogues, how it was seen and how much of it, "
    "the site and the time. Where it does not know a name it asks you, and searches this program's "
    "list of titles for it.",
    "extension off": "Of a site that is not ticked nothing is kept, and the extension is told to "
    "look away there.",
    "extension revoked": "That browser can tell this program nothing more, and what still waited "
    "in it can be read by nobody.",
    "not interested": "noted, on this device only.",
    "links": "Nothing is asked of these sites before you press one. Then that site sees which film "
    "you look up.",
    # privacy: what is shared now
    "now nothing": "No release is sent. Your rows work all the same: they are made here.",
    "now stopped": "No more releases are sent. The server keeps what was sent before, until you "
    "have it deleted.",
    "now not yet": "No release has left yet, as far as this device knows. A first one leaves when "
    "you have looked at it and sent it.",
    "now altered": "Your history is shared with random changes, with {server}.",
    "now everything": "What you watched is shared as it is with {server}.",
    # privacy: the ways
    "way nothing leaves": "No release. What the server publishes for everybody is fetched, without "
    "saying who asks.",
    "way nothing stranger": "From releases nothing, as there are none.",
    "way nothing you": "Rows all the same, made here from all you really watched.",
    "way nothing others": "Nothing, unless you take part in the common model.",
    "way response leaves": "For every title of the list an answer to “have you seen it?”, true or "
    "false at random.",
    "way response stranger": "Of a single film little more than by guessing: the odds are below. "
    "The answers about many films together can tell who you are to whoever knows them.",
    "way response you": "Rows are ranked here with the model that comes of everybody’s answers.",
    "way response others": "From many people’s answers the server learns which films go together.",
    "way altered leaves": "Films drawn at random whose categories add up to about those of yours. "
    "Most are made up, and some you may really have watched.",
    "way altered stranger": "Roughly how much you watch of each category. Of a single film little "
    "more than by guessing: the odds are below.",
    "way altered you": "Little today: your rows are made here either way, with what the server "
    "publishes. Where it publishes nothing, its own list gives a hint.",
    "way altered others": "They count towards how popular each category is.",
    "way d2p leaves": "As many films as are new, each exchanged at random for another one or, now "
    "and then, for itself.",
    "way d2p stranger": "How many films you watched. Which they are, no more than the odds below "
    "allow.",
    "way d2p others": "They count towards how popular films are.",
    "way everything leaves": "What you watched, without protection.",
    "way everything stranger": "All of it: whoever sees it knows that you watched those films.",
    "way everything you": "No more than random changes do.",
    "way everything others": "The server learns from your history as it is.",
    "way common stranger": "From one server alone no more than the odds of its training allow. "
    "Both servers together read your whole history.",
    "way common you": "When all rounds are over and enough people took part, rows are ranked here "
    "with the model that came of them.",
    "way common others": "Your numbers are in the sums that everybody's model is made from.",
    # privacy: more ways
    "truth": "your computer tells the truth in {cases} of 100 cases",
    "withheld": "What you watched of a category that you keep to yourself has no influence on what "
    "is sent. It is treated as if you had never watched any of it, so that nobody can tell that "
    "you keep it: films of it that you never watched may be claimed in your name.",
    "withheld shows": "Where no category is sent with noise there is nothing to hide behind: what "
    "you keep to yourself is then seen to be missing.",
    "nothing leaves": "Nothing about your history leaves this device, unless you take part in a "
    "common model. You still get recommendations: they are made here.",
    "clear": "What you allow is sent as it is: whoever sees it knows that you watched those films. "
    "Nothing is hidden by noise.",
    "some clear": "Films whose categories you all send as they are have no such protection.",
    "odds": "Whoever guesses from what was sent whether you watched a film, and says so wrongly in "
    "no more than {wrong} of 100 worlds where you did not, says so in at most {right} of 100 "
    "worlds where you did.",
    "odds d2p": "Whoever guesses from what was sent which of two films you watched, and names the "
    "one wrongly in no more than {wrong} of 100 worlds, names it rightly in at most {right} of "
    "100.",
    "size is public": "How many films are sent is not hidden: it is the number of those that are "
    "new, and where none is new none is sent.",
    # preview
    "answered": "For each of {titles} titles one answer, seen or not, some of them lies.",
    "answered before": "For each title of the list as it was when this was drawn one answer, seen "
    "or not, some of them lies.",
    "no mark": "Whoever gets them sees no difference.",
    "exactly": "It is exactly what will be sent, byte for byte.",
    "exactly but the name": "It is exactly what will be sent, but for your name: this device has "
    "none at the server and gets a random one with this release, in the place of the empty UserId.",
    "waits": "Where you do not send it, it leaves at the next scheduled moment: {due} UTC.",
    "drawn once": "Noise is drawn once. You then see exactly what would be sent, and decide. "
    "Drawing sends nothing.",
    "drawn anyway": "Nothing is new. A release is drawn all the same, as if you had watched "
    "nothing: otherwise that something is sent would tell that something was watched.",
    "refused": "Nothing was drawn for you to see and nothing was sent.",
    "sent": "Sent, exactly as shown.",
    "not sent": "Not sent, or not known to have arrived: {error} Sending the same bytes again "
    "costs nothing.",
    # afterwards
    "held answers": "The server also holds the answers of {releases} of your releases, as they "
    "were sent.",
    "ranked here": "Nothing about your history was sent for this.",
    "ledger first": "Every release is written here, on the disk, before it is shown or sent.",
    "none recorded": "No release is recorded here as sent. What was sent from another machine, or "
    "before everything here was deleted, does not count on this page.",
    # server
    "known as": "It knows this device as {name}, a random name it gave.",
    "no name": "This device has no name there. It gets a random one with the first release or "
    "report it sends.",
    "schedule": "What is new is sent at moments that were fixed beforehand, at your level, also "
    "when nothing is new: so the moment tells nothing of what you watched. Where this program does "
    "not run at that moment, it sends at its next start.",
    "certificate": "Nothing is sent to a server that shows another certificate than the one you "
    "trusted, unless you trust the new one here.",
    # my data
    "export clear": "The zip is not sealed: whoever has it reads your history, and can speak to "
    "the server in your name.",
    "export sealed": "Whoever has the sealed file and not the passphrase learns its size.",
    "delete there": "{servers} will be told to delete what it holds of this device, and nothing "
    "more is scheduled. What others copied before, and what went into a common model, cannot be "
    "called back; the ledger goes on counting it.",
    "nothing to delete there": "This device has no name at a server, so it can have nothing "
    "deleted there. What was sent under an earlier name and not deleted then is still there.",
    "delete here": "History, releases and settings on this device go. The ledger stays: it holds "
    "no titles, and what was spent stays spent.",
    "kept there": "No server is told: it keeps what was sent to it, and without your name there "
    "you can no longer have it deleted.",
    "forget the ledger": "Forget the ledger too. What was spent still counts, and nothing here "
    "will know it any more.",
    "deleted there": "The server was told to delete everything it holds of you, and confirmed it.",
    "deleted here": "History, releases and settings on this device are deleted.",
    "ledger kept": "The ledger is kept: ε = {epsilon} stays spent.",
    "ledger gone": "The ledger is deleted too. What was spent, ε = {epsilon}, still counts for "
    "whoever has what was sent.",
    "still there": "{servers} was not told and still holds what was sent to it.",
    # the common model
    "common off": "Nothing is asked for it before you look at a training here, and nothing is sent "
    "for it before you take part.",
    "common look": "Looking asks the leader for its key and for the round, without your name.",
    "common report": "Once in a round one sealed report goes to the server you chose, the leader, "
    "under this device's name there. It has the same number of bytes for everybody, whatever they "
    "watched.",
    "common halves": "In it are your numbers, cut at random into two halves: one is sealed for the "
    "leader, one for the helper. Either half alone is a row of random numbers.",
    "common moment": "It leaves at a moment drawn at random within a day of this device hearing of "
    "the round, before your history is read. Where there is nothing to add, zeros are sent.",
    "common together": "Leader and helper together read everything that you add, and so your whole "
    "history. If their operators are one, or share what they have, nothing here protects you.",
    "common one server": "Each server puts noise into its sum before the other sees it. Of your "
    "history either of them alone learns no more than the odds of the training allow, over all its "
    "rounds and whatever other devices it invents; anybody else learns less.",
    "common seen": "That you take part is not hidden. The leader sees this device's name, its "
    "address and the moment; the helper sees none of them.",
    "common odds": "Whoever has all that one server sees in all rounds, and guesses from it "
    "whether you added your history or nothing at all, and says so wrongly in no more than {wrong} "
    "of 100 worlds where it was nothing, says so in at most {right} of 100 worlds where it was "
    "your history.",
    "common cost": "All rounds together cost you, as a whole person, at most ε = {epsilon} "
    "(δ = {delta}); a round that asks for more gets no report.",
    "common ledger": "Each report is in your ledger, on the disk, before it leaves. At your limit "
    "taking part stops, and this page says so.",
    "common signed": "Rounds and results are asked for without your name, and a result is used "
    "only where both servers signed it.",
    "common every": "one report for each, by itself",
    "common one": "the open one, or the next; in a later one only if you say so again",
    "common none": "Nothing of yours is added; what the rounds of others taught is fetched without "
    "your name.",
    "common helper key": "Compare the helper's fingerprint with what the helper's operator "
    "publishes: a leader that gives you another key as the helper's could read everything you "
    "add.",
    "common numbers": "As they are in the sealed report.",
    "common left": "Nothing is asked or sent for a common model from then on, and its model is no "
    "longer used here. What was sent stays in the sums it went into; what was spent stays spent.",
}


def said(key: str, **values: object) -> str:
    """A sentence, its gaps filled."""
    return PROMISES[key].format(**values)


def promise(key: str, **values: object) -> Markup:
    """A sentence for a page, marked with its key."""
    return Markup('<span data-promise="{}">{}</span>').format(key, said(key, **values))
