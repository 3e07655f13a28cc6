package api

import (
	"net/url"
	"strings"
)

// Call is a request of the local API as the agent serves it and its clients send it: a
// pattern of http.ServeMux, with the types of its body and of its answer. A call whose
// input is [url.Values] has a query in place of a body. The answer to one that streams is
// a value per line.
type Call[In, Out any] string

// None is the body or the answer of a call that has none.
type None = struct{}

// Request is the call's method, and its path with the wildcards replaced in order.
func (c Call[In, Out]) Request(values ...string) (method, path string) {
	method, path, _ = strings.Cut(string(c), " ")
	for _, value := range values {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(value) + after
	}
	return method, path
}

// The calls of the local API.
const (
	CallStatus        Call[None, Status]                    = "GET /v1/status"
	CallWatch         Call[url.Values, Event]               = "GET /v1/watch" // streams
	CallUsage         Call[url.Values, Usage]               = "GET /v1/usage" // streams
	CallUp            Call[UpRequest, UpResponse]           = "POST /v1/up"
	CallPreview       Call[PreviewRequest, Preview]         = "POST /v1/preview" // streams
	CallDown          Call[DownRequest, DownResponse]       = "POST /v1/down"
	CallAssistantUp   Call[AssistantRequest, UpResponse]    = "POST /v1/assistant/up"
	CallAssistantDown Call[AssistantRequest, DownResponse]  = "POST /v1/assistant/down"
	CallForward       Call[ForwardRequest, ForwardResponse] = "POST /v1/forward"
	CallExtend        Call[ExtendRequest, ExtendResponse]   = "POST /v1/extend"
	CallCheck         Call[CheckRequest, CheckResponse]     = "POST /v1/check"
	CallRefresh       Call[RefreshRequest, Status]          = "POST /v1/refresh"
	CallReload        Call[None, None]                      = "POST /v1/reload"
	CallAttach        Call[AttachRequest, AttachResponse]   = "POST /v1/attach"
	CallQuota         Call[QuotaRequest, QuotaResponse]     = "POST /v1/quota"
	CallBalances      Call[None, []HostBalances]            = "GET /v1/balances"
	CallHistory       Call[None, HistoryResponse]           = "GET /v1/history"
	CallLogin         Call[LoginRequest, Host]              = "POST /v1/login"
	CallLogout        Call[LoginRequest, Host]              = "POST /v1/logout"
	CallStop          Call[None, None]                      = "POST /v1/stop"
	CallOpen          Call[None, OpenResponse]              = "POST /v1/sessions/{name}/open"
	CallOpenEndpoint  Call[None, OpenResponse]              = "POST /v1/sessions/{name}/endpoints/{endpoint}/open"
	CallLog           Call[url.Values, LogChunk]            = "GET /v1/sessions/{name}/log" // streams
	CallChoices       Call[url.Values, ChoicesResponse]     = "GET /v1/sessions/{name}/choices"
	CallAnswer        Call[Answer, None]                    = "POST /v1/prompts/{id}"
	CallStream        Call[StreamRequest, None]             = "POST /v1/stream" // upgrades the connection
	CallScheduler     Call[None, SchedulerResponse]         = "GET /v1/hosts/{host}/scheduler"
	CallLook          Call[None, Look]                      = "POST /v1/hosts/{host}/look"
	CallJobs          Call[url.Values, JobsResponse]        = "GET /v1/hosts/{host}/jobs"
	CallLastJobs      Call[None, JobsResponse]              = "GET /v1/hosts/{host}/last-jobs"
	CallSubmit        Call[SubmitRequest, JobResponse]      = "POST /v1/hosts/{host}/jobs"
	CallJob           Call[None, JobResponse]               = "GET /v1/hosts/{host}/jobs/{id}"
	CallJobLog        Call[url.Values, LogChunk]            = "GET /v1/hosts/{host}/jobs/{id}/log" // streams
	CallCancel        Call[None, JobResponse]               = "DELETE /v1/hosts/{host}/jobs/{id}"
)
