"""Where a history comes from: browsers on this machine, and files that a person brings."""

from epicrec.client.sources.browsers import read_visits
from epicrec.client.sources.imports import recognise
from epicrec.client.sources.locations import Family, Profile, find_profiles
from epicrec.client.sources.own import write as write_own
from epicrec.client.sources.records import Evidence, Import, Question, Viewing, Visit

__all__ = [
    "Evidence",
    "Family",
    "Import",
    "Profile",
    "Question",
    "Viewing",
    "Visit",
    "find_profiles",
    "read_visits",
    "recognise",
    "write_own",
]
