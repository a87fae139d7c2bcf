"""Titles: the many ways in which one title is written, taken apart, and the other titles of
well-known films."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from epicrec.data.works import MAX_TITLE, uninvert

_LAST_BRACKET = re.compile(r"^(.*\S)\s*[(\[]([^()\[\]]*)[)\]]$")
_YEAR = r"(1[89]\d\d|20\d\d)"


def numbers(normal: str) -> frozenset[str]:
    """The numbers in a normalised title: sequels differ in nothing else."""
    return frozenset(word for word in normal.split() if word.isdigit())


class Kind(Enum):
    """What the brackets after a title say it is."""

    FILM = "film"
    NOT_A_FILM = "not a film"
    UNSAID = "unsaid"


@dataclass(frozen=True, slots=True)
class ParsedTitle:
    """A title as somebody wrote it, in its parts."""

    title: str
    year: int | None = None
    kind: Kind = Kind.UNSAID
    alternatives: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.title, *self.alternatives)


_OTHER_WORKS = re.compile(
    r"\b(tv series|tv mini|tv episode|tv special|tv programme|television|miniseries|series|serie|"
    r"fernsehserie|video game|videogame|game|podcast|music video|novel|novella|book|roman|musical|"
    r"play|opera|soundtrack|album|song|band|single|franchise|character|comics?|disambiguation|"
    r"manga|short story|ship|company|magazine|poem|begriffsklärung|season \d+)\b",
    re.IGNORECASE,
)
_FILM_WORD = re.compile(r"\b(film|movie|película|film tv|short|video)\b", re.IGNORECASE)
_YEARS = re.compile(rf"\b{_YEAR}\b")
_SPAN = re.compile(rf"\b{_YEAR}\s*[–—-]\s*({_YEAR})?\s*$")


def read_title(text: str) -> ParsedTitle:
    """Take apart a title with its brackets: a year, a kind, other titles.

    >>> read_title("City of Lost Children, The (Cité des enfants perdus, La) (1995)").names
    ('The City of Lost Children', 'La Cité des enfants perdus')
    >>> read_title("Drive (2011 film)").year, read_title("Fargo (TV Series 2014–2024)").kind.value
    (2011, 'not a film')
    """
    rest, year, kind, others = text[:MAX_TITLE].strip(), None, Kind.UNSAID, []
    while found := _LAST_BRACKET.match(rest):
        inside = found.group(2).strip()
        said_year = _YEARS.search(inside)
        if inside and not inside.strip("IVX"):
            pass  # IMDb's mark for films of the same name and year
        elif _SPAN.search(inside) or _OTHER_WORKS.search(inside):
            kind = Kind.NOT_A_FILM
        elif _FILM_WORD.search(inside):
            kind = Kind.FILM if kind is Kind.UNSAID else kind
            year = year or (int(said_year.group(1)) if said_year else None)
        elif said_year and said_year.group() == inside:
            year = year or int(inside)
        elif inside:
            others.append(uninvert(re.sub(r"^a\.?k\.?a\.? ", "", inside, flags=re.IGNORECASE)))
        rest = found.group(1).strip()
    return ParsedTitle(uninvert(rest), year, kind, tuple(reversed(others)))


def heads(title: str) -> Iterator[str]:
    """The title before its subtitle, where it has one."""
    for mark in (":", " - ", " – ", " or "):
        head, found, _ = title.partition(mark)
        if found and head.strip():
            yield head.strip()


def read_slug(slug: str) -> tuple[ParsedTitle, ...]:
    """What the words of an address may mean: `dune-2021` is Dune of 2021, `blade-runner-2049` not.

    >>> [(r.title, r.year) for r in read_slug("dune-2021")]
    [('dune', 2021), ('dune 2021', None)]
    """
    words = [word for word in re.split(r"[-_+]+|%20", slug) if word]
    whole = ParsedTitle(" ".join(words))
    if len(words) > 1 and re.fullmatch(_YEAR, words[-1]):
        return ParsedTitle(" ".join(words[:-1]), int(words[-1])), whole
    return (whole,) if words else ()


ALTERNATIVES: dict[tuple[str, int], tuple[str, ...]] = {
    ("Star Wars", 1977): (
        "Star Wars: Episode IV - A New Hope", "Star Wars: A New Hope", "A New Hope",
    ),
    ("The Empire Strikes Back", 1980): (
        "Star Wars: Episode V - The Empire Strikes Back", "Star Wars: The Empire Strikes Back",
    ),
    ("Return of the Jedi", 1983): (
        "Star Wars: Episode VI - Return of the Jedi", "Star Wars: Return of the Jedi",
    ),
    ("Star Wars: The Force Awakens", 2015): ("Star Wars: Episode VII - The Force Awakens",),
    ("Raiders of the Lost Ark", 1981): ("Indiana Jones and the Raiders of the Lost Ark",),
    ("Harry Potter and the Philosopher's Stone", 2001): (
        "Harry Potter and the Sorcerer's Stone",
    ),
    ("Se7en", 1995): ("Seven",),
    ("Léon: The Professional", 1994): ("Léon", "The Professional"),
    ("Mad Max 2", 1981): ("Mad Max 2: The Road Warrior", "The Road Warrior"),
    ("Ring", 1998): ("Ringu",),
    ("Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb", 1964): (
        "Dr. Strangelove",
    ),
    ("Borat", 2006): (
        "Borat: Cultural Learnings of America for Make Benefit Glorious Nation of Kazakhstan",
    ),
    ("Amélie", 2001): ("Le Fabuleux Destin d'Amélie Poulain", "Amélie from Montmartre"),
    ("Life Is Beautiful", 1997): ("La vita è bella",),
    ("The Good, the Bad and the Ugly", 1966): ("Il buono, il brutto, il cattivo",),
    ("Pan's Labyrinth", 2006): ("El laberinto del fauno",),
    ("Spirited Away", 2001): ("Sen to Chihiro no kamikakushi",),
    ("My Neighbor Totoro", 1988): ("Tonari no Totoro", "My Neighbour Totoro"),
    ("Princess Mononoke", 1997): ("Mononoke-hime",),
    ("Your Name.", 2016): ("Kimi no na wa",),
    ("Seven Samurai", 1954): ("Shichinin no samurai", "The Seven Samurai"),
    ("Bicycle Thieves", 1948): ("Ladri di biciclette", "The Bicycle Thief"),
    ("Downfall", 2004): ("Der Untergang",),
    ("The Lives of Others", 2006): ("Das Leben der Anderen",),
    ("Run Lola Run", 1998): ("Lola rennt",),
    ("City of God", 2002): ("Cidade de Deus",),
    ("Parasite", 2019): ("Gisaengchung",),
    ("Train to Busan", 2016): ("Busanhaeng",),
    ("Wings of Desire", 1987): ("Der Himmel über Berlin",),
    ("The 400 Blows", 1959): ("Les Quatre Cents Coups",),
    ("Breathless", 1960): ("À bout de souffle",),
    ("The Intouchables", 2011): ("Intouchables", "Untouchable"),
    ("The Secret in Their Eyes", 2009): ("El secreto de sus ojos",),
    ("All Quiet on the Western Front", 2022): ("Im Westen nichts Neues",),
    ("The Hunt", 2012): ("Jagten",),
    ("Another Round", 2020): ("Druk",),
    ("8½", 1963): ("Otto e mezzo", "Fellini's 8½"),
    ("Three Colours: Blue", 1993): ("Three Colors: Blue", "Trois couleurs: Bleu"),
    ("Three Colours: Red", 1994): ("Three Colors: Red", "Trois couleurs: Rouge"),
    ("The Avengers", 2012): ("Marvel's The Avengers", "Avengers Assemble"),
    ("Edge of Tomorrow", 2014): ("Live Die Repeat: Edge of Tomorrow",),
    ("Dune", 2021): ("Dune: Part One",),
    ("Wicked", 2024): ("Wicked: Part I",),
    ("E.T. the Extra-Terrestrial", 1982): ("E.T.",),
    ("The Texas Chain Saw Massacre", 1974): ("The Texas Chainsaw Massacre",),
    ("Romeo + Juliet", 1996): ("Romeo and Juliet", "William Shakespeare's Romeo and Juliet"),
    ("Sunset Boulevard", 1950): ("Sunset Blvd.",),
    ("The School of Rock", 2003): ("School of Rock",),
    ("School of Rock", 2003): ("The School of Rock",),
    ("Battleship Potemkin", 1925): ("Bronenosets Potemkin",),
    ("Rome, Open City", 1945): ("Roma città aperta",),
    ("Nosferatu", 1922): ("Nosferatu: A Symphony of Horror",),
}  # fmt: skip
"""Names under which well-known films are listed too, by title and year."""

SHARED_TITLES: frozenset[str] = frozenset(
    {
        "12 Angry Men", "3:10 to Yuma", "A Nightmare on Elm Street", "A Star Is Born", "Aladdin",
        "All Quiet on the Western Front", "Batman", "Beauty and the Beast", "Breathless",
        "Casino Royale", "Cinderella", "Coco", "Dawn of the Dead", "Dirty Dancing", "Dracula",
        "Dune", "Frankenstein", "Frozen", "Ghostbusters", "Godzilla", "Halloween",
        "How to Train Your Dragon", "King Kong", "Les Misérables", "Little Women", "Mean Girls",
        "Metropolis", "Miracle on 34th Street", "Nosferatu", "Ocean's Eleven", "Oldboy",
        "Peter Pan", "Pinocchio", "Planet of the Apes", "Psycho", "Rebecca", "Robin Hood",
        "Romeo and Juliet", "Sabrina", "Scarface", "Scream", "Solaris", "Spider-Man", "Suspiria",
        "The Evil Dead", "The Fly", "The Hunt", "The Invisible Man", "The Italian Job",
        "The Jazz Singer", "The Jungle Book", "The Karate Kid", "The Lion King",
        "The Magnificent Seven", "The Producers", "The Secret in Their Eyes", "The Shining",
        "The Ten Commandments", "The Texas Chainsaw Massacre", "The Thing", "The Wicker Man",
        "Titanic", "True Grit", "War of the Worlds", "West Side Story",
    }
)  # fmt: skip
"""Titles of several well-known films: one of them in the catalogue may not be the one meant, so
without a year the person is asked."""
