"""irc-ask.py HOST PORT NICK TEXT - say TEXT to NICK on an IRC server, and print the answer."""
import socket
import sys

host, port, nick, text = sys.argv[1:]
with socket.create_connection((host, int(port)), timeout=20) as conn:
    lines = conn.makefile("r", encoding="utf-8", newline="\r\n")

    def say(line):
        conn.sendall((line + "\r\n").encode())

    say("NICK anna\r\nUSER anna 0 * :Anna")
    for line in lines:
        words = line.rstrip().split(" ")
        if words[0] == "PING":
            say("PONG " + words[1])
        elif words[1] == "001" or words[1] == "401":  # we are in; or the bridge is not, yet
            say("PRIVMSG " + nick + " :" + text)
        elif words[1] == "PRIVMSG":
            print("<" + nick + "> " + line.rstrip().split(" :", 1)[1])
            break
