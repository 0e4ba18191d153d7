"""The table of benches, and of the modules that are linted as tops."""

from dataclasses import dataclass, field


# What the sections of ESP are built from.
ESP = ("common", "crypto", "gateway", "esp")


@dataclass(frozen=True)
class Bench:
    """One build of one module, with the Python module that tests it.

    `parameters` become the module's parameters and, as CV_NAME, environment variables of the
    tests; `environment` goes to the tests only. `folders` are folders of rtl/ ("tb" is tb/). Of a
    `whole` gateway the tests see the ports alone, which leaves Verilator more to simplify.
    """

    name: str
    top: str
    module: str
    folders: tuple[str, ...] = ("common",)
    parameters: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    whole: bool = False


# What shares gateway_pkg is built with every folder: the package needs those of the others.
ALL = ("common", "crypto", "esp", "policy", "sad", "gateway")
# The ESP sections work on the types of gateway_pkg.
ESP = ("common", "crypto", "gateway", "esp")
INBOUND = ESP


def modules(count):
    """A gateway's parameters: as many modules of each kind."""
    return dict.fromkeys(("NumPolicy", "NumSad", "NumAes", "NumDes", "NumGcm", "NumSha1",
                          "NumSha256"), count)


BENCHES = [
    # The longest ones first.
    Bench("gateway_1", "cv_gateway", "test_gateway", ALL, modules(1), whole=True),
    Bench("outbound_2", "cv_outbound", "test_outbound", ALL, modules(2), whole=True),
    Bench("inbound_2", "cv_inbound", "test_inbound", ALL, modules(2), whole=True),
    Bench("fifo_4", "cv_fifo", "test_fifo", parameters={"Depth": 4}),
    Bench("fifo_1", "cv_fifo", "test_fifo", parameters={"Depth": 1}),
    Bench("fifo_5", "cv_fifo", "test_fifo", parameters={"Depth": 5}),
    Bench("fifo_ram_16", "cv_fifo_ram", "test_fifo", parameters={"Depth": 16}),
    Bench("fifo_async_8", "cv_fifo_async", "test_fifo_async", parameters={"Depth": 8}),
    Bench("arbiter_5", "cv_arbiter", "test_arbiter", parameters={"N": 5, "LowEvery": 3}),
    Bench("packer", "cv_packer", "test_packer"),
    Bench("packet_fifo", "cv_packet_fifo", "test_packet_fifo",
          parameters={"Depth": 8, "Packets": 3}),
    Bench("packet_fifo_ram", "cv_packet_fifo", "test_packet_fifo",
          parameters={"Depth": 40, "Packets": 4}),
    Bench("cut", "cv_cut", "test_cut"),
    Bench("switch", "cv_switch", "test_switch"),
    Bench("hold", "cv_hold", "test_hold", parameters={"Depth": 8, "Packets": 3}),
    Bench("hold_ram", "cv_hold", "test_hold", parameters={"Depth": 40, "Packets": 2}),
    Bench("spread_3", "cv_spread", "test_spread", parameters={"N": 3}),
    Bench("spread_1", "cv_spread", "test_spread", parameters={"N": 1}),
    Bench("merge_3", "cv_merge", "test_merge", parameters={"N": 3}),
    Bench("merge_1", "cv_merge", "test_merge", parameters={"N": 1}),
    Bench("axis_in", "cv_axis_in", "test_axis_in", parameters={"MaxBytes": 128}),
    Bench("axis_out", "cv_axis_out", "test_axis_out"),
    Bench("serial_on", "cv_serial", "test_serial", ("common",), {"Enable": "1'b1"}),
    Bench("serial_off", "cv_serial", "test_serial", ("common",), {"Enable": "1'b0"}),
    Bench("sha1_40", "cv_sha1", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha1"}),
    Bench("sha1_20", "cv_sha1", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 4},
          {"algorithm": "sha1"}),
    Bench("sha256_64", "cv_sha256", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 1},
          {"algorithm": "sha256"}),
    Bench("sha256_32", "cv_sha256", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha256"}),
    Bench("hmac_sha1_40", "cv_hmac", "test_hmac", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha1"}),
    Bench("hmac_sha1_20", "cv_hmac", "test_hmac", ("common", "crypto"), {"RoundsPerCycle": 4},
          {"algorithm": "sha1"}),
    Bench("hmac_sha256_32", "cv_hmac", "test_hmac", ("common", "crypto"),
          {"RoundsPerCycle": 2, "Sha256": "1'b1"}, {"algorithm": "sha256"}),
    Bench("aes_pipe", "cv_aes_pipe", "test_aes_pipe", ("common", "crypto")),
    Bench("ghash", "cv_ghash", "test_ghash", ("common", "crypto")),
    Bench("aes_gcm", "cv_aes_gcm", "test_aes_gcm", ("common", "crypto")),
    Bench("des_cbc", "cv_des_cbc", "test_des_cbc", ("common", "crypto")),
    Bench("des_ecb", "cv_des_ecb", "test_des_ecb", ("common", "crypto")),
    Bench("aes_cbc", "cv_aes_cbc", "test_aes_cbc", ("common", "crypto")),
    Bench("ip_parse", "cv_ip_parse", "test_ip_parse", ALL),
    Bench("auth_in_sha1_40", "cv_auth_in", "test_auth_in", INBOUND,
          {"Auth": "2'd1", "RoundsPerCycle": 2}),
    Bench("auth_in_sha1_20", "cv_auth_in", "test_auth_in", INBOUND,
          {"Auth": "2'd1", "RoundsPerCycle": 4}),
    Bench("auth_in_sha256_32", "cv_auth_in", "test_auth_in", INBOUND,
          {"Auth": "2'd2", "RoundsPerCycle": 2}),
    Bench("esp_trailer", "cv_esp_trailer", "test_esp_trailer", ESP),
    Bench("replay_64", "cv_replay", "test_replay", ESP, {"Window": 64}),
    Bench("replay_128", "cv_replay", "test_replay", ESP, {"Window": 128}),
    Bench("prepend_16", "cv_prepend", "test_prepend", parameters={"MaxBytes": 16}),
    Bench("prepend_56", "cv_prepend", "test_prepend", parameters={"MaxBytes": 56}),
    Bench("append", "cv_append", "test_append"),
    Bench("output", "cv_output", "test_output"),
    Bench("esp_text", "cv_esp_text", "test_esp_text", ESP),
    Bench("auth_out_sha1_40", "cv_auth_out", "test_auth_out", ESP,
          {"Auth": "2'd1", "RoundsPerCycle": 2}),
    Bench("auth_out_sha1_20", "cv_auth_out", "test_auth_out", ESP,
          {"Auth": "2'd1", "RoundsPerCycle": 4}),
    Bench("auth_out_sha256_32", "cv_auth_out", "test_auth_out", ESP,
          {"Auth": "2'd2", "RoundsPerCycle": 2}),
    Bench("encap", "cv_encap", "test_encap", ESP),
    Bench("cipher_aes_seal", "cv_cipher_aes", "test_cipher_cbc", ESP, {"Decrypt": "1'b0"},
          {"cipher": "aes"}),
    Bench("cipher_aes_open", "cv_cipher_aes", "test_cipher_cbc", ESP, {"Decrypt": "1'b1"},
          {"cipher": "aes"}),
    Bench("cipher_des_seal", "cv_cipher_des", "test_cipher_cbc", ESP,
          {"Decrypt": "1'b0", "MaxBeats": 128}, {"cipher": "des"}),
    Bench("cipher_des_open", "cv_cipher_des", "test_cipher_cbc", ESP,
          {"Decrypt": "1'b1", "MaxBeats": 1024}, {"cipher": "des"}),
    Bench("cipher_des_ecb", "cv_cipher_des", "test_cipher_cbc", ESP,
          {"Decrypt": "1'b0", "Ecb": "1'b1"}, {"cipher": "des"}),
    Bench("cipher_gcm_out", "cv_cipher_gcm_out", "test_cipher_gcm_out", ESP),
    Bench("esp_out_aes_sha1", "esp_out_chain", "test_esp_out_chain", (*ESP, "tb"),
          {"Cipher": 0, "Auth": "2'd1", "RoundsPerCycle": 4}),
    Bench("esp_out_aes_sha256", "esp_out_chain", "test_esp_out_chain", (*ESP, "tb"),
          {"Cipher": 0, "Auth": "2'd2", "RoundsPerCycle": 2}),
    Bench("esp_out_des_sha1", "esp_out_chain", "test_esp_out_chain", (*ESP, "tb"),
          {"Cipher": 1, "Auth": "2'd1", "RoundsPerCycle": 2}),
    Bench("esp_out_gcm", "esp_out_chain", "test_esp_out_chain", (*ESP, "tb"),
          {"Cipher": 2, "Auth": "2'd0"}),
    Bench("auth_out_none", "cv_auth_out", "test_auth_out", ESP, {"Auth": "2'd0"}),
    Bench("table_ram_old", "cv_table_ram", "test_table_ram", ALL,
          {"Cleared": 8, "ReadsOld": "1'b1"}),
    Bench("table_ram_valid", "cv_table_ram", "test_table_ram", ALL,
          {"Cleared": 1, "ReadsOld": "1'b0"}),
    Bench("spd_3", "cv_spd", "test_spd", ALL, {"N": 3, "HashBytes": 2, "MaxChain": 64}),
    Bench("spd_8", "cv_spd", "test_spd", ALL, {"N": 8, "HashBytes": 1, "MaxChain": 8}),
    Bench("auth_in_none", "cv_auth_in", "test_auth_none", INBOUND, {"Auth": "2'd0"}),
    Bench("accept_1", "cv_accept", "test_accept", INBOUND, {"Clients": 1}),
    Bench("accept_3", "cv_accept", "test_accept", INBOUND, {"Clients": 3}),
    Bench("icv_12", "cv_icv", "test_icv", INBOUND, {"IcvBytes": 12}),
    Bench("icv_16", "cv_icv", "test_icv", INBOUND, {"IcvBytes": 16}),
    Bench("decap", "cv_decap", "test_decap", INBOUND),
    Bench("decap_few", "cv_decap", "test_decap", INBOUND,
          {"Ciphers": "5'b01011", "Auths": "3'b011"}),
    Bench("cipher_gcm_in_1", "cv_cipher_gcm_in", "test_cipher_gcm_in", INBOUND, {"Clients": 1}),
    Bench("cipher_gcm_in_2", "cv_cipher_gcm_in", "test_cipher_gcm_in", INBOUND, {"Clients": 2}),
    Bench("uncover", "cv_uncover", "test_uncover", INBOUND),
    Bench("policy_out", "cv_policy_out", "test_policy", ALL, environment={"direction": "out"}),
    Bench("policy_in", "cv_policy_in", "test_policy", ALL, environment={"direction": "in"}),
    Bench("regs", "cv_regs", "test_regs", ALL, {"Sources": 3}),
    Bench("sad_out_4", "cv_sad", "test_sad_out", ALL, {"N": 4}),
    Bench("sad_out_16", "cv_sad", "test_sad_out", ALL, {"N": 16}),
    Bench("sad_in_3", "cv_sad", "test_sad_in", ALL, {"N": 3, "Inbound": "1'b1", "HashBytes": 2}),
    Bench("inbound_lane_gcm", "inbound_lane", "test_inbound_lane", (*INBOUND, "tb"),
          {"Auth": "2'd0"}),
    Bench("inbound_lane_sha1", "inbound_lane", "test_inbound_lane", (*INBOUND, "tb"),
          {"Auth": "2'd1"}),
    Bench("inbound_lane_sha256", "inbound_lane", "test_inbound_lane", (*INBOUND, "tb"),
          {"Auth": "2'd2"}),
]

# Benches that run even if nothing of theirs has changed, for the tools: two clocks, a hash, headers.
SAMPLE = {"fifo_async_8", "ghash", "encap"}

# (top module, folders): each is linted with its default parameters.
LINT = [
    ("cv_fifo", ("common",)),
    ("cv_fifo_ram", ("common",)),
    ("cv_fifo_async", ("common",)),
    ("cv_sync", ("common",)),
    ("cv_arbiter", ("common",)),
    ("cv_packer", ("common",)),
    ("cv_cut", ("common",)),
    ("cv_packet_fifo", ("common",)),
    ("cv_switch", ("common",)),
    ("cv_hold", ("common",)),
    ("cv_spread", ("common",)),
    ("cv_merge", ("common",)),
    ("cv_axis_in", ("common",)),
    ("cv_axis_out", ("common",)),
    ("cv_sha1", ("common", "crypto")),
    ("cv_sha256", ("common", "crypto")),
    ("cv_hmac", ("common", "crypto")),
    ("cv_aes_cbc", ("common", "crypto")),
    ("cv_des_pipe", ("common", "crypto")),
    ("cv_des_cbc", ("common", "crypto")),
    ("cv_des_ecb", ("common", "crypto")),
    ("cv_aes_pipe", ("common", "crypto")),
    ("cv_ghash", ("common", "crypto")),
    ("cv_aes_gcm", ("common", "crypto")),
    ("cv_ip_parse", ALL),
    ("cv_icv", INBOUND),
    ("cv_accept", INBOUND),
    ("cv_auth_in", INBOUND),
    ("cv_esp_trailer", ESP),
    ("cv_replay", ESP),
    ("cv_prepend", ("common",)),
    ("cv_append", ("common",)),
    ("cv_output", ("common",)),
    ("cv_esp_text", ESP),
    ("cv_auth_out", ESP),
    ("cv_encap", ESP),
    ("cv_cipher_gcm_out", ESP),
    ("cv_cipher_aes", ESP),
    ("cv_cipher_des", ESP),
    ("cv_spd", ALL),
    ("cv_decap", INBOUND),
    ("cv_cipher_gcm_in", INBOUND),
    ("cv_uncover", INBOUND),
    ("cv_sad", ALL),
    ("cv_serial", ("common",)),
    ("cv_outbound", ALL),
    ("cv_inbound", ALL),
    ("cv_gateway", ALL),
    ("cv_policy_out", ALL),
    ("cv_policy_in", ALL),
    ("cv_regs", ALL),
]
