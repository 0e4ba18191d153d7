// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A strongSwan plugin that lets charon negotiate SM4 (GB/T 32907) and SM3 (GB/T 32905) for ESP.
//
// It gives proposals the words sm4, sm4ctr, sm4gcm16 and sm3, the kernel interface the names that
// Linux's cryptography has for them, and IKEv2's key derivation their lengths. Packets are the data
// path's: nothing is encrypted here.
//
// IKEv2 has no numbers for these algorithms. Each has one of private use (RFC 7296 section 3.3.2),
// which both peers must have alike: `plugins.gm` in strongswan.conf. charon takes numbers of
// private use from a peer that it knows for strongSwan (send_vendor_id) or with accept_private_algs.

#include <daemon.h>
#include <library.h>
#include <plugins/plugin.h>
#include <sa/ikev2/keymat_v2.h>

// What an algorithm is called, and how it is negotiated.
typedef struct {
	// In a proposal, and as the key of its number in strongswan.conf.
	const char *token;
	transform_type_t type;
	const char *kernel_name;
	// Of private use; strongswan.conf may have another.
	uint16_t number;
	// The transform's attribute (RFC 7296 section 3.3.5), in bits; 0 if it has none.
	uint16_t attribute;
	// Key and what comes behind it, in bits.
	uint16_t key_bits;
} algorithm_t;

static algorithm_t algorithms[] = {
	{"sm4", ENCRYPTION_ALGORITHM, "cbc(sm4)", 64001, 128, 128},
	// 32 bits of nonce follow the key, as RFC 3686 section 5.1 has it of AES-CTR.
	{"sm4ctr", ENCRYPTION_ALGORITHM, "rfc3686(ctr(sm4))", 64002, 128, 160},
	// 32 bits of salt follow the key, as RFC 4106 section 8.1 has it of AES-GCM. charon has a list of
	// its own of combined modes; one that is not there it hands to the kernel as a cipher without
	// integrity. culvert takes the name for what it is, with an ICV of 128 bits.
	{"sm4gcm16", ENCRYPTION_ALGORITHM, "rfc4106(gcm(sm4))", 64003, 128, 160},
	// charon does not say where to truncate an algorithm that it does not know: the ICV has 256
	// bits, as Linux has it of hmac(sm3) then.
	{"sm3", INTEGRITY_ALGORITHM, "hmac(sm3)", 64004, 0, 256},
};

// First number that IKEv2 leaves to private use.
#define PRIVATE_USE 1024

// charon's own way to derive a CHILD_SA's keys.
static typeof(((keymat_v2_t*)NULL)->derive_child_keys) derive_child_keys;

// Copies what a proposal has of a type, with the length of the key if it is an algorithm of ours.
static void copy_algorithm(proposal_t *from, transform_type_t type, proposal_t *to)
{
	uint16_t number, key_bits;
	int i;

	if (!from->get_algorithm(from, type, &number, &key_bits))
	{
		return;
	}
	for (i = 0; i < countof(algorithms); i++)
	{
		if (algorithms[i].type == type && algorithms[i].number == number)
		{
			key_bits = algorithms[i].key_bits;
		}
	}
	to->add_algorithm(to, type, number, key_bits);
}

// charon knows key lengths of its own algorithms alone; for others it takes those of the proposal.
static bool derive(keymat_v2_t *this, proposal_t *proposal, key_exchange_t *ke, chunk_t nonce_i,
				   chunk_t nonce_r, chunk_t *encr_i, chunk_t *integ_i, chunk_t *encr_r,
				   chunk_t *integ_r)
{
	proposal_t *lengths;
	bool derived;

	lengths = proposal_create(proposal->get_protocol(proposal), proposal->get_number(proposal));
	copy_algorithm(proposal, ENCRYPTION_ALGORITHM, lengths);
	copy_algorithm(proposal, INTEGRITY_ALGORITHM, lengths);
	derived = derive_child_keys(this, lengths, ke, nonce_i, nonce_r, encr_i, integ_i, encr_r,
								integ_r);
	lengths->destroy(lengths);
	return derived;
}

static keymat_t *keymat_create_with_lengths(bool initiator)
{
	keymat_v2_t *keymat = keymat_v2_create(initiator);

	// The same for each.
	derive_child_keys = keymat->derive_child_keys;
	keymat->derive_child_keys = derive;
	return &keymat->keymat;
}

METHOD(plugin_t, get_name, char*, plugin_t *this)
{
	return "gm";
}

METHOD(plugin_t, get_features, int, plugin_t *this, plugin_feature_t *features[])
{
	static plugin_feature_t f[] = {
		PLUGIN_NOOP,
			PLUGIN_PROVIDE(CUSTOM, "gm-esp-algorithms"),
	};
	*features = f;
	return countof(f);
}

METHOD(plugin_t, destroy, void, plugin_t *this)
{
	keymat_register_constructor(IKEV2, NULL);
	free(this);
}

static uint16_t number_of(const algorithm_t *algorithm)
{
	int number;

	number = lib->settings->get_int(lib->settings, "%s.plugins.gm.%s", algorithm->number, lib->ns,
									algorithm->token);
	if (number < PRIVATE_USE || number > UINT16_MAX)
	{
		DBG1(DBG_CFG, "plugins.gm.%s = %d is no number of private use (%d to %d): %d is used",
			 algorithm->token, number, PRIVATE_USE, UINT16_MAX, algorithm->number);
		return algorithm->number;
	}
	return number;
}

// Called by libstrongswan when the plugin is loaded.
plugin_t *gm_plugin_create()
{
	plugin_t *this;
	int i;

	for (i = 0; i < countof(algorithms); i++)
	{
		algorithm_t *a = &algorithms[i];

		a->number = number_of(a);
		lib->proposal->register_token(lib->proposal, a->token, a->type, a->number, a->attribute);
		// The function keeps a copy of the name; its type does not say so.
		charon->kernel->register_algorithm(charon->kernel, a->number, a->type, 0,
										   (char*)a->kernel_name);
	}
	keymat_register_constructor(IKEV2, keymat_create_with_lengths);
	INIT(this,
		.get_name = _get_name,
		.get_features = _get_features,
		.destroy = _destroy,
	);
	return this;
}
