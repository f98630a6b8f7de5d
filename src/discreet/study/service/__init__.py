"""A study with real users: policies out, reports in, rounds that close, a learner that sees releases only.

====================  ====================================================================================
file                  idea
====================  ====================================================================================
``declaration``       the public declaration in one TOML file; its hash is the name of the study
``study_files``       the files beside it: database, keys, head, operator's token
``study_mechanism``   what a declaration amounts to: privatizer, learner, guarantee, what a device sends
``wire_messages``     what travels between devices and the coordinator, as strict types
``batches``           shuffled batches: signed, taken once, opened and counted
``reports``           reports checked against what is public, packed, admitted or refused
``sealing``           keys of rounds, records sealed to them (HPKE), secret files
``chain_heads``       the signed chain of policies and releases, and its head outside the database
``study_database``    tables and their migrations, in SQLite or PostgreSQL
``rounds``            rows of rounds, states and reports: the only SQL of the service
``coordinator``       opens a study, hands out its policy, takes in reports
``closing``           the one transaction that counts, charges, releases and plans
``restoring``         going on after a backup came back; ending early
``study_check``       what a study will cost and bring, before anybody takes part
``monitoring``        logs, metrics and limits, without anything raw
``app``               the same over HTTP: group commit, closing in the background, a graceful stop
====================  ====================================================================================

Nothing here is needed to simulate or to train; the extra ``serve`` has what it needs.
"""
