package main

// The verbs in the order in which the help lists them.

func homeVerbs() []*verb {
	return in(partHome, initVerb(), upVerb(), serveVerb(), bridgeVerb(), statusVerb(), topVerb(), doctorVerb(), agentVerb(), memoryVerb(), dreamVerb(), secretVerb(), tokenVerb(), unitVerb(), versionVerb())
}

func askVerbs() []*verb {
	return in(partAsk, sendVerb(), runVerb(), lsVerb(), searchVerb(), showVerb(), whyVerb(), logsVerb(), waitVerb(), approveVerb(), editVerb(), moveVerb(), cancelVerb(), retryVerb(), deliverVerb(), archiveVerb(), exportVerb(), scheduleVerb())
}

func workVerbs() []*verb {
	return in(partWork, claimVerb(), progressVerb(), completeVerb(), failVerb(), releaseVerb(), workerVerb(), mcpVerb())
}

func talkVerbs() []*verb {
	return in(partTalk, postVerb(), readVerb(), inboxVerb(), ackVerb(), channelsVerb(), createChannelVerb(), noteVerb(), whoamiVerb())
}

func proofVerbs() []*verb {
	return in(partProof, tailVerb(), verifyVerb(), recoverVerb(), backupVerb(), restoreVerb(),
		auditVerb(), decisionVerb(), changeVerb())
}

func otherVerbs() []*verb {
	return in(partOthers, helpVerb(), schemaVerb(), completionVerb(), manVerb())
}

func in(part string, verbs ...*verb) []*verb {
	for _, v := range verbs {
		v.part = part
	}
	return verbs
}
