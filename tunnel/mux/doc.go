// Package mux uses an ssh connection that somebody else made: it requests commands,
// streams and forwards from an OpenSSH ControlMaster, as the ssh program does
// (PROTOCOL.mux of openssh-portable), and offers them as an [ssh.Conn].
//
// x/crypto's NewControlClientConn does this with one request for all channels. The master
// then keeps channels that it cannot close: it exits when we leave after a dial was
// refused, or while one is under way. Here each channel is a request of its own, with
// pipes for its data. The master closes them whenever we end, even if we are killed.
// This package never tells a master to exit.
package mux
