"""Who may do what, written down: every request code and every kind of caller.

Callers, in the order of the columns:

    anon    sends no account                    none    an account without any right
    else    PUB|SUB of another topic and SUB, PUB of other groups
    read    SUB of the topic and of the group   write   PUB of the topic
    full    PUB|SUB of the topic, SUB of the group, PUB of the producer group
    admin   an admin account

`+` does it, `-` is refused and changes, shows and asks nothing. What is done, by its effect:

    state   something is stored, or a client is registered      shown   the answer tells something
    asked   another client is asked or told                     none    code 0 and nothing else
    tried   refused by what it does, for another reason than the account
"""

from __future__ import annotations

from typing import NamedTuple

CALLERS = ("anon", "none", "else", "read", "write", "full", "admin")


class Row(NamedTuple):
    code: int
    what: str
    allowed: frozenset[str]
    effect: str


_TABLE = """
code    what it asks for                   anon none else read write full admin  effect

10      send                                -    -    -    -    +     +    +     state
10      send, another topic under b         -    -    -    -    +     +    +     state
310     send                                -    -    -    -    +     +    +     state
310     send, another topic by name         -    -    -    -    +     +    +     state
310     send as the owned producer group    -    -    -    -    -     +    +     state
310     half asked about in the owned group -    -    -    -    -     +    +     state
310     send to the retry topic             -    -    -    +    -     +    +     state
320     batch                               -    -    -    -    +     +    +     state
320     batch, another topic by name        -    -    -    -    +     +    +     state
324     reply                               -    -    -    -    -     +    +     asked
325     reply                               -    -    -    -    -     +    +     asked
325     reply, another topic by name        -    -    -    -    -     +    +     asked
370     recall                              -    -    -    -    +     +    +     state

11      pull                                -    -    -    +    -     +    +     shown
11      pull the retry topic                -    -    -    +    -     +    +     shown
11      pull the retry topic as another     -    -    -    -    -     -    +     shown
11      pull as another group               -    -    -    -    -     -    +     shown
11      pull the half messages              -    -    -    -    -     -    +     shown
11      pull with an offset to commit       -    -    -    +    -     +    +     state
361     lite pull                           -    -    -    +    -     +    +     shown
200050  pop                                 -    -    -    +    -     +    +     state
200050  pop the retry topic                 -    -    -    +    -     +    +     state
200050  pop the retry topic as another      -    -    -    -    -     -    +     state
200051  acknowledge                         -    -    -    +    -     +    +     state
200151  acknowledge several                 -    -    -    +    -     +    +     state
200151  acknowledge one's own and others'   -    -    -    -    -     -    +     state
200052  peek                                -    -    -    +    -     +    +     shown
200052  peek the retry topic as another     -    -    -    -    -     -    +     shown
200053  hide for longer                     -    -    -    +    -     +    +     state
200054  is there a message                  -    -    -    +    -     +    +     shown
200054  is there a retry of another group   -    -    -    -    -     -    +     shown
200055  how many pops wait                  -    -    -    +    -     +    +     shown
200056  roll pops back                      -    -    -    -    -     -    +     none
36      back to the broker                  -    -    -    +    -     +    +     state
36      a foreign message comes back        -    -    -    -    -     -    +     state
36      back, another group by name         -    -    -    +    -     +    +     state

105     route of a topic                    -    +    +    +    +    +    +     shown
106     the broker names                    -    +    +    +    +    +    +     shown
206     the topics' names                   -    +    +    +    +    +    +     shown

14      the group's offset                  -    -    -    +    -     +    +     shown
15      commit an offset                    -    -    -    +    -     +    +     state
29      offset by time                      -    -    -    +    -     +    +     shown
30      next offset                         -    -    -    +    -     +    +     shown
31      first offset                        -    -    -    +    -     +    +     shown
32      oldest time                         -    -    -    +    -     +    +     shown
33      message by its address              -    -    -    +    -     +    +     shown
33      message, another topic named        -    -    -    -    -     -    +     shown
12      messages by key                     -    -    -    +    -     +    +     shown
321     entries of a queue                  -    -    -    +    -     +    +     shown

34      join the group                      -    -    -    +    -     +    +     state
34      produce for the owned group         -    -    -    -    -     +    +     state
34      take the client id of another       -    -    -    -    -     +    -     state
35      leave the group                     -    -    -    -    -     +    +     state
35      leave, another group by name        -    -    -    -    -     +    +     state
35      stop another's producer             -    -    -    -    -     +    +     state
37      commit a half                       -    -    -    -    -     +    +     state
37      commit, the group is nobody's       -    -    -    -    +     +    +     state
37      commit, another topic named         -    -    -    -    -     -    +     state
38      who is in the group                 -    -    -    +    -     +    +     shown
41      lock queues                         -    -    -    +    -     +    +     state
41      lock in another's name              -    -    -    -    -     +    +     state
42      unlock queues                       -    -    -    -    -     +    +     state
46      check a subscription                -    -    -    +    -     +    +     none
400     my queues                           -    -    -    +    -     +    +     shown

13      end of the log                      -    -    -    -    -     -    +     shown
17      create a topic                      -    -    -    -    -     -    +     state
18      create topics                       -    -    -    -    -     -    +     state
21      all topics                          -    -    -    -    -     -    +     shown
25      broker settings                     -    -    -    -    -     -    +     state
26      show broker settings                -    -    -    -    -     -    +     shown
28      figures of the broker               -    -    -    -    -     -    +     shown
43      all offsets                         -    -    -    -    -     -    +     shown
200     create a group                      -    -    -    -    -     -    +     state
201     all groups                          -    -    -    -    -     -    +     shown
202     sizes of the topic                  -    -    -    +    +     +    +     shown
203     who consumes                        -    -    -    +    -     +    +     shown
204     who produces                        -    -    -    -    -     -    +     shown
207     delete a group                      -    -    -    -    -     -    +     state
208     lag of the group                    -    -    -    +    -     +    +     shown
208     lag of the group, another topic     -    -    -    -    -     -    +     shown
215     delete a topic                      -    -    -    -    -     -    +     state
222     reset offsets                       -    -    -    -    -     -    +     state
223     ask members for offsets             -    -    -    +    -     +    +     asked
225     create groups                       -    -    -    -    -     -    +     state
300     groups of the topic                 -    -    -    +    -     +    +     shown
303     times of the group                  -    -    -    +    -     +    +     shown
305     the broker's own topics             -    -    -    -    -     -    +     shown
306     clean queues                        -    -    -    -    -     -    +     none
307     ask a member about itself           -    -    -    +    -     +    +     asked
308     smallest offsets                    -    -    -    +    -     +    +     shown
309     let a member consume                -    -    -    -    -     -    +     asked
309     let a member consume secrets        -    -    -    -    -     -    -     asked
314     clone offsets                       -    -    -    -    -     -    +     state
315     statistics                          -    -    -    -    -     -    +     shown
316     clean topics                        -    -    -    -    -     -    +     none
317     lag of all groups                   -    -    -    -    -     -    +     shown
323     revive a half                       -    -    -    -    -     -    +     state
328     all producers                       -    -    -    -    -     -    +     shown
343     topics of the group                 -    -    -    +    -     +    +     shown
343     topics, another group by name       -    -    -    +    -     +    +     shown
345     subscription of the group           -    -    -    +    -     +    +     shown
351     settings of the topic               -    -    -    +    +     +    +     shown
352     settings of the group               -    -    -    +    -     +    +     shown
353     forbid a group to read              -    -    -    -    -     -    +     state
401     set a request mode                  -    -    -    -    -     -    +     state
402     all request modes                   -    -    -    -    -     -    +     shown

3001    create a user                       -    -    -    -    -     -    +     state
3002    update a user                       -    -    -    -    -     -    +     state
3003    delete a user                       -    -    -    -    -     -    +     state
3004    a user                              -    -    -    -    -     -    +     shown
3005    users                               -    -    -    -    -     -    +     shown
3006    create an ACL                       -    -    -    -    -     -    +     state
3007    update an ACL                       -    -    -    -    -     -    +     state
3008    delete an ACL                       -    -    -    -    -     -    +     state
3009    an ACL                              -    -    -    -    -     -    +     shown
3010    ACLs                                -    -    -    -    -     -    +     shown

31001   bytes of the log                    -    -    -    -    -     -    +     shown
31003   entries of a queue                  -    -    -    -    -     -    +     shown
31016   take over a producer id             -    -    -    -    -     +    +     state
31016   take over another producer id       -    -    -    -    -     -    +     state
31011   move the lead                       -    -    -    -    -     -    +     shown
31012   members                             -    -    -    -    -     -    +     shown
31013   change members                      -    -    -    -    -     -    +     tried
31014   look for damage                     -    -    -    -    -     -    +     shown
31015   verify the log                      -    -    -    -    -     -    +     shown
31017   messages that wait                  -    -    -    -    -     -    +     shown
31018   change accounts                     -    -    -    -    -     -    +     state
31019   list accounts                       -    -    -    -    -     -    +     shown
31020   the audit log                       -    -    -    -    -     -    +     shown
31021   record an action                    -    -    -    -    -     -    +     state
31022   leaders seen                        -    -    -    -    -     -    +     shown

11      one's group, another topic          -    -    -    -    -     -    +     shown
11      one's topic, another group          -    -    -    -    -     -    +     shown
14      one's group, another topic          -    -    -    -    -     -    +     shown
14      one's topic, another group          -    -    -    -    -     -    +     shown
15      one's group, another topic          -    -    -    -    -     -    +     state
15      one's topic, another group          -    -    -    -    -     -    +     state
34      one's group, another topic          -    -    -    -    -     -    +     state
34      one's topic, another group          -    -    -    -    -     -    +     state
41      one's group, another topic          -    -    -    -    -     -    +     shown
41      one's topic, another group          -    -    -    -    -     -    +     shown
46      one's group, another topic          -    -    -    -    -     -    +     none
46      one's topic, another group          -    -    -    -    -     -    +     none
303     one's group, another topic          -    -    -    -    -     -    +     shown
303     one's topic, another group          -    -    -    -    -     -    +     shown
308     one's group, another topic          -    -    -    -    -     -    +     shown
308     one's topic, another group          -    -    -    -    -     -    +     shown
321     one's group, another topic          -    -    -    -    -     -    +     shown
321     one's topic, another group          -    -    -    -    -     -    +     shown
345     one's group, another topic          -    -    -    -    -     -    +     shown
345     one's topic, another group          -    -    -    -    -     -    +     shown
400     one's group, another topic          -    -    -    -    -     -    +     shown
400     one's topic, another group          -    -    -    -    -     -    +     shown
200050  one's group, another topic          -    -    -    -    -     -    +     state
200050  one's topic, another group          -    -    -    -    -     -    +     state
200052  one's group, another topic          -    -    -    -    -     -    +     shown
200052  one's topic, another group          -    -    -    -    -     -    +     shown
200054  one's group, another topic          -    -    -    -    -     -    +     shown
200054  one's topic, another group          -    -    -    -    -     -    +     shown
200055  one's group, another topic          -    -    -    -    -     -    +     shown
200055  one's topic, another group          -    -    -    -    -     -    +     shown
"""


def _rows() -> list[Row]:
    rows = []
    for line in filter(None, map(str.strip, _TABLE.splitlines()[2:])):
        code, rest = line.split(maxsplit=1)
        what, *marks, effect = [*rest.rsplit(maxsplit=8)]
        assert set(marks) <= {"+", "-"}, line
        allowed = {who for who, mark in zip(CALLERS, marks, strict=True) if mark == "+"}
        rows.append(Row(int(code), what.strip(), frozenset(allowed), effect))
    return rows


ROWS = _rows()

PROVEN_CODES = frozenset({31002})
"""A forwarding hello: closes the connection of everyone who is no node (test_forward.py)."""
