"""The second party of the shuffle model: takes sealed messages in, and hands permuted batches to the coordinator.

====================  ====================================================================================
file                  idea
====================  ====================================================================================
``shuffler_database`` its own database: rounds as it saw them, sealed reports, batches, tokens, evidence
``round_view``        which round is open, by the coordinator's signed head, and what its devices must send
``sealed_reports``    sealed reports checked, admitted once, grouped by round
``shuffler``          freezes a batch, charges, permutes once, resends the same bytes until they are acknowledged
``shuffler_app``      the same over HTTP
====================  ====================================================================================

It sees who sends, and no content: messages are sealed to the coordinator. The coordinator sees content, and no sender.
"""
