# Adds the words that begin with TEXT to the replies, each with HEAD before it. @file and @ini stand
# for files.
_mvbench_match() { # TEXT HEAD WORDS
	local word
	for word in $3; do
		case $word in
		@file) compopt -o filenames 2>/dev/null
			while IFS= read -r word; do COMPREPLY+=("$2$word"); done < <(compgen -f -- "$1") ;;
		@ini) compopt -o filenames 2>/dev/null
			while IFS= read -r word; do
				[[ $word == *.ini || -d $word ]] && COMPREPLY+=("$2$word")
			done < <(compgen -f -- "$1") ;;
		"$1"*) COMPREPLY+=("$2$word") ;;
		esac
	done
}

# Prints the values of an OPTION of $command.
_mvbench_values() { # OPTION
	echo "${_mvbench_table[values $command $1]-${_mvbench_table[values - $1]-}}"
}

_mvbench() {
	local line=() word command current previous='' options head value i
	# bash cuts words at = and :
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((${#line[@]})) && [[ $word == [=:] || ${COMP_WORDS[i - 1]} == [=:] ]]; then
			line[${#line[@]} - 1]+=$word
		else
			line+=("$word")
		fi
	done
	COMPREPLY=()
	current=${line[${#line[@]} - 1]}
	if ((${#line[@]} == 1)); then
		_mvbench_match "$current" '' "${_mvbench_table[words]}"
		return
	fi
	command=${line[0]}
	previous=${line[${#line[@]} - 2]}
	options=${_mvbench_table[options $command]-}
	if [[ $options == *--workload=* ]]; then # options of the plug-ins on the command line
		for word in "${line[@]}"; do
			case $word in
			--strategy=* | --workload=* | --optimizer=* | --codec=*) options+=" ${_mvbench_table[plugin ${word#*=}]-}" ;;
			esac
		done
		case $current in
		--*) word=${current#--}; options+=" ${_mvbench_table[plugin ${word%%.*}]-}" ;;
		esac
	fi
	if [[ $current == --*=* ]]; then
		word=${current#--}
		value=${word#*=} head=
		[[ ${COMP_WORDS[COMP_CWORD]} == "$current" ]] && head=--${word%%=*}=
		if [[ $value == *,* ]]; then # a list: its last item
			head+=${value%,*}, value=${value##*,}
		fi
		_mvbench_match "$value" "$head" "$(_mvbench_values "${word%%=*}")"
	elif [[ $current == -* ]]; then
		_mvbench_match "$current" '' "$options"
		[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
	elif [[ $previous == --* && " $options " == *" $previous= "* ]]; then
		_mvbench_match "$current" '' "$(_mvbench_values "${previous#--}")"
	else
		_mvbench_match "$current" '' "${_mvbench_table[words $command]-}"
	fi
	return 0
}
complete -F _mvbench mvbench
