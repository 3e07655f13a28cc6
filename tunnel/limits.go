package tunnel

import "time"

// Limits are the waits and counts that make us a good guest of a login node and
// keep a person from being locked out of it. Every field must be positive.
type Limits struct {
	// SettingsTimeout bounds one run of `ssh -G`, which runs Match exec commands.
	SettingsTimeout time.Duration
	// DialTimeout bounds reaching the host's port.
	DialTimeout time.Duration
	// BannerTimeout bounds the wait for the server's first line. A port that is
	// open and silent is a captive portal or a VPN that is down.
	BannerTimeout time.Duration
	// HandshakeTimeout bounds key exchange and login, less the time a person takes
	// to answer.
	HandshakeTimeout time.Duration
	// PromptTimeout bounds how long a person may take to answer one question.
	PromptTimeout time.Duration
	// Attended is how long after a person acted they may be asked.
	Attended time.Duration

	// LoginSpacing is the least time between two logins that nobody asked for.
	LoginSpacing time.Duration
	// RetryMin and RetryMax bound the backoff between two tries.
	RetryMin, RetryMax time.Duration
	// StableAfter is how long a connection must have lived for its loss to be no
	// sign of trouble, so that the backoff starts over.
	StableAfter time.Duration
	// Refusals is how many refused logins stop all tries until a person acts.
	Refusals int
	// BanWait is the wait after a suspected ban.
	BanWait time.Duration

	// KeepaliveEvery is the silence after which the host is asked for a sign of
	// life, and KeepaliveMax how many such silences in a row mean that it is gone.
	KeepaliveEvery time.Duration
	KeepaliveMax   int
	// ProbeTimeout bounds the answer to the probe that follows a network change.
	ProbeTimeout time.Duration
	// WakeGrace is how long after a network change a connection that cannot be
	// made again without a person is given to come back to life.
	WakeGrace time.Duration

	// MaxSessions is how many commands run at once over one connection. sshd's
	// own default limit is 10.
	MaxSessions int
	// SessionsAgain is how long a server that allowed fewer sessions is left alone
	// before one more than that is tried.
	SessionsAgain time.Duration
	// NodeDial is how long each name of a compute node is given to answer.
	NodeDial time.Duration
	// NodeIdle is how long a connection to a compute node that a command asked for is
	// kept after its last user.
	NodeIdle time.Duration
	// MaxOutput bounds what one command may print, in bytes.
	MaxOutput int
}

// DefaultLimits are the limits for real hosts.
func DefaultLimits() Limits {
	return Limits{
		SettingsTimeout:  15 * time.Second,
		DialTimeout:      15 * time.Second,
		BannerTimeout:    10 * time.Second,
		HandshakeTimeout: 30 * time.Second,
		PromptTimeout:    2 * time.Minute,
		Attended:         2 * time.Minute,
		LoginSpacing:     time.Minute,
		RetryMin:         5 * time.Second,
		RetryMax:         15 * time.Minute,
		StableAfter:      5 * time.Minute,
		Refusals:         2,
		BanWait:          time.Hour,
		KeepaliveEvery:   30 * time.Second,
		KeepaliveMax:     3,
		ProbeTimeout:     3 * time.Second,
		WakeGrace:        45 * time.Second,
		MaxSessions:      8,
		SessionsAgain:    time.Minute,
		NodeDial:         4 * time.Second,
		NodeIdle:         time.Minute,
		MaxOutput:        8 << 20,
	}
}

// PracticeLimits are quick ones, for a practice cluster that bans nobody. A login and a
// probe have the time that they have anywhere: programs start and compute for them, on a
// laptop which may be busy.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.DialTimeout = 3 * time.Second
	l.LoginSpacing = 200 * time.Millisecond
	l.RetryMin = 100 * time.Millisecond
	l.RetryMax = 2 * time.Second
	l.StableAfter = time.Second
	l.BanWait = 5 * time.Second
	l.KeepaliveEvery = time.Second
	l.WakeGrace = 10 * time.Second
	return l
}
