"""Operations beside the user plane: a server in the core network with TCP and DNS, and the management programs of a modem."""

import socket
import struct
import threading

#: Of the operations server.
TCP_PORT, DNS_PORT = 8443, 53

#: What its name server knows (RFC 5737's addresses are for examples).
ZONE = {"amf.core.test": "10.60.1.9"}

_PATIENCE_S = 20


class Server:
    """Sends back what comes by TCP, and answers A questions (RFC 1035), until `close`."""

    def __init__(self, lab, host, address):
        self.address = address
        self.tcp = host.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((address, TCP_PORT))
        self.tcp.listen()
        self.dns = host.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.dns.bind((address, DNS_PORT))
        #: Who has asked: (address, "tcp" or "dns").
        self.clients = []
        for serve in (self._serve_tcp, self._serve_dns):
            threading.Thread(target=serve, daemon=True).start()
        lab.at_close(self.close)

    def _serve_tcp(self):
        while True:
            try:
                connection, (client, _) = self.tcp.accept()
            except OSError:
                return
            self.clients.append((client, "tcp"))
            with connection:
                connection.settimeout(_PATIENCE_S)
                try:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                except OSError:
                    pass

    def _serve_dns(self):
        while True:
            try:
                question, client = self.dns.recvfrom(512)
            except OSError:
                return
            if not client:
                return
            self.clients.append((client[0], "dns"))
            self.dns.sendto(answer(question), client)

    def close(self):
        for opened in (self.tcp, self.dns):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            opened.close()


def answer(question):
    """A name server's answer to a message with one question of type A."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    address = ZONE.get(".".join(labels))
    head = question[:2] + struct.pack("!HHHHH", 0x8580 if address else 0x8583, 1, bool(address), 0, 0)
    # The name by a pointer to the question's.
    record = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(address)) if address else b""
    return head + question[12 : at + 5] + record


def resolve(host, server, name, source=""):
    """The address of a name, as a program on a host asks for it; None if there is none."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack("!HHHHHH", 0x4C43, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, 1, 1)
    with host.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((source, 0))
        client.settimeout(_PATIENCE_S)
        client.connect((server, DNS_PORT))
        client.send(question)
        said = client.recv(512)
    return socket.inet_ntoa(said[-4:]) if struct.unpack_from("!H", said, 6)[0] else None


def transfer(host, server, length=200_000, source=""):
    """Has so many bytes sent back by TCP, and returns how many came as they were sent."""
    data = bytes(n * 7 % 251 for n in range(length))
    with host.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.bind((source, 0))
        client.settimeout(_PATIENCE_S)
        client.connect((server, TCP_PORT))
        sender = threading.Thread(target=_send, args=(client, data), daemon=True)
        sender.start()
        came = b""
        while len(came) < length and (piece := client.recv(65536)):
            came += piece
        sender.join(_PATIENCE_S)
    return length if came == data else sum(a == b for a, b in zip(came, data))


def _send(client, data):
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
