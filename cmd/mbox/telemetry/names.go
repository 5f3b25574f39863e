package telemetry

// Attributes of OpenTelemetry's semantic conventions (1.37 and later). Those of
// generative AI are in development there: whatever is renamed is renamed here alone.
const (
	serviceName       = "service.name"
	serviceVersion    = "service.version"
	serviceInstanceID = "service.instance.id"
	errorType         = "error.type"

	genOperation    = "gen_ai.operation.name"
	genProvider     = "gen_ai.provider.name"
	genAgent        = "gen_ai.agent.name"
	genTool         = "gen_ai.tool.name"
	genRequestModel = "gen_ai.request.model"
	genInput        = "gen_ai.usage.input_tokens"
	genOutput       = "gen_ai.usage.output_tokens"
)

// Values of gen_ai.operation.name, and of error.type where a reason has no name.
const (
	invokeAgent = "invoke_agent"
	executeTool = "execute_tool"
	chatModel   = "chat"
	otherError  = "_OTHER"
)

// Attributes of mbox.
const (
	taskID       = "mbox.task.id"
	taskRoot     = "mbox.task.root"
	taskParent   = "mbox.task.parent"
	taskDepth    = "mbox.task.depth"
	taskState    = "mbox.task.state"
	taskType     = "mbox.task.type"
	taskPriority = "mbox.task.priority"
	taskTarget   = "mbox.task.target"
	taskAttempts = "mbox.task.attempts"
	attemptNo    = "mbox.attempt"
	attemptEpoch = "mbox.epoch"
	attemptEnd   = "mbox.outcome"
	spentPrefix  = "mbox.spent."
	actionStatus = "mbox.action.status"
	approver     = "mbox.approval.by"
)
