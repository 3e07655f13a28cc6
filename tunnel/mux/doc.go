// Package mux rides an ssh connection that somebody else made: it asks an OpenSSH
// ControlMaster for commands, streams and forwards as the ssh program does
// (PROTOCOL.mux of openssh-portable), and shows them as an [ssh.Conn].
//
// x/crypto's NewControlClientConn does so too, with one request for all channels. The
// master then keeps channels that it cannot close: it ends itself when a dial was
// refused, or was still under way, and we leave. Here each channel is a request of its
// own, with pipes handed over, and the master closes what is left of it whenever we
// go, be it by a kill. It is never told to end.
package mux
