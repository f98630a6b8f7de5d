"""Pages of a study: one for participants, public, and one for the person who runs it, behind a token.

Everything here is a function of plain data that somebody else has gathered: no database, no mechanism, no study.
The page for participants is made here, whole, and can be read without scripts. The operator's page is a fixed document
whose scripts ask the service for numbers and draw them (``static/``, plain JavaScript, sent as it is written).

**The rules of both pages.** Nothing is fetched from another host. No script or style stands inside a page, and the
policy that is sent with it forbids them (:data:`~discreet.study.dashboard.serving.HEADERS`). Titles and labels of a
study are text, never markup, and stand in an element of their own direction, so that letters that run from right to
left do not turn the words around them.

**The operator's token.** A browser cannot be told to send a token in a header when a page is opened, so the page itself
holds no secret: it has a form, keeps the token in ``sessionStorage`` of its tab, and sends it in the ``Authorization``
header of its own requests. A cookie would do without the form's script, and was not taken: it is sent by itself with
every request to the host, also one that another page causes; it would be a second secret, with a lifetime and a key
that all workers must share. What speaks against ``sessionStorage`` is that scripts of the page can read it: there are
no scripts but ours, and the policy of the page lets no other run. The token is never part of an address, where
histories and logs would keep it. Events come over ``fetch`` for the same reason: ``EventSource`` sends no header.

**What is public** is what everybody could compute from the declaration, the releases and the ledger. Arrivals and
refusals are not: the page for participants changes when a round closes and at no other time.
"""
