package real

import (
	"crypto/hmac"
	"crypto/sha1" // RFC 6238's default, and what pam_oath takes
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

const (
	codeSecret = "12345678901234567890" // the one of RFC 6238's examples
	codeStep   = 30 * time.Second

	// codeWindow is how many steps early or late a code may come. It is wide, so
	// that a test that needs several codes takes the next ones instead of waiting
	// half a minute for each.
	codeWindow = 8
)

// Code is a one-time code that has not been used. It may wait for one.
func (c *Cluster) Code() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step, wait := nextStep(time.Now(), c.record.Code)
	time.Sleep(wait)
	c.record.Code = step
	return codeAt(step), c.save()
}

// oathUsers is pam_oath's file of users and their secrets.
func oathUsers() string {
	secret := hex.EncodeToString([]byte(codeSecret))
	var b strings.Builder
	for _, u := range users {
		fmt.Fprintf(&b, "HOTP/T30/6 %s - %s\n", u.name, secret)
	}
	return b.String()
}

// codeAt is the one-time code of a step: RFC 6238 on RFC 4226.
func codeAt(step int64) string {
	mac := hmac.New(sha1.New, []byte(codeSecret))
	_ = binary.Write(mac, binary.BigEndian, step)
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	number := binary.BigEndian.Uint32(sum[offset:]) & 0x7fffffff
	return fmt.Sprintf("%06d", number%1_000_000)
}

// nextStep is the step whose code to hand out after last was, and how long to
// wait before the server takes it: each code is good once, and never an older one.
func nextStep(now time.Time, last int64) (step int64, wait time.Duration) {
	current := now.Unix() / int64(codeStep/time.Second)
	step = max(current, last+1)
	if early := step - codeWindow; early > current {
		wait = time.Unix(early*int64(codeStep/time.Second), 0).Sub(now)
	}
	return step, wait
}
